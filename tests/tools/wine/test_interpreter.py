"""Is a folder a Windows CPython that an environment can be made from?"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.wine.errors import WineError
from tools.wine.interpreter import MACHINE_X86_64, check_interpreter


def _program(machine: int) -> bytes:
    head = b"MZ" + bytes(0x3A) + struct.pack("<I", 0x80)
    return head.ljust(0x80, b"\0") + b"PE\0\0" + struct.pack("<H", machine)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What of a Windows CPython 3.11 is looked at."""
    folder = tmp_path / "Windows Python ü"
    (folder / "Lib").mkdir(parents=True)
    (folder / "Lib" / "os.py").touch()
    (folder / "python.exe").write_bytes(_program(MACHINE_X86_64))
    (folder / "python3.dll").touch()
    (folder / "python311.dll").touch()
    return folder


def test_a_full_one_is_taken(folder: Path) -> None:
    assert check_interpreter(folder) == folder


def _no_program(folder: Path) -> None:
    (folder / "python.exe").unlink()


def _one_level_too_high(folder: Path) -> None:
    (folder / "tools").mkdir()
    shutil.move(folder / "python.exe", folder / "tools" / "python.exe")


def _no_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def _virtual_environment(folder: Path) -> None:
    (folder.parent / "pyvenv.cfg").touch()


def _embeddable(folder: Path) -> None:
    (folder / "python311._pth").touch()


def _arm(folder: Path) -> None:
    (folder / "python.exe").write_bytes(_program(0xAA64))


def _linux_program(folder: Path) -> None:
    (folder / "python.exe").write_bytes(b"\x7fELF" + bytes(200))


def _cut_off(folder: Path) -> None:
    (folder / "python.exe").write_bytes(_program(MACHINE_X86_64)[:0x3D])


def _other_version(folder: Path) -> None:
    (folder / "python311.dll").rename(folder / "python313.dll")


def _no_library(folder: Path) -> None:
    (folder / "python311.dll").unlink()


def _no_modules(folder: Path) -> None:
    (folder / "Lib" / "os.py").unlink()


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (_no_program, "found no python.exe"),
        (_one_level_too_high, "tools"),
        (_no_folder, "found no folder"),
        (_virtual_environment, "found a virtual environment"),
        (_embeddable, "found the embeddable package"),
        (_arm, "found a program for ARM64"),
        (_linux_program, "found no Windows program"),
        (_cut_off, "cannot be read"),
        (_other_version, "found Python 3.13"),
        (_no_library, "found Python no python3*.dll"),
        (_no_modules, "found no Lib/os.py"),
    ],
)
def test_anything_else_is_refused_by_what_it_is(folder: Path, spoil: Callable[[Path], None], found: str) -> None:
    spoil(folder)
    with pytest.raises(WineError) as error:
        check_interpreter(folder)
    assert found in str(error.value)
    assert str(folder) in str(error.value)
