"""The Windows CPython that an environment is made from: is this folder one?"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Final

from tools.wine.errors import WineError

VERSION: Final = (3, 11)
"""The version that the requirements' wheels are for."""

MACHINE_X86_64: Final = 0x8664
MACHINES: Final = {0x014C: "32-bit x86", 0xAA64: "ARM64"}


def check_interpreter(folder: Path) -> Path:
    """The folder, absolute, when it holds a full CPython of the right version for 64-bit Windows.

    Raises:
        WineError: it does not; the text says what is wrong with it and what to give instead.
    """
    expected = f"a folder with a Windows CPython {VERSION[0]}.{VERSION[1]}: python.exe, python311.dll, DLLs, Lib"
    program = folder / "python.exe"
    if not program.is_file():
        below = next((each.parent for each in sorted(folder.glob("*/python.exe"))), None)
        hint = "" if below is None else f"; there is one in {below}"
        what = "no python.exe" if folder.is_dir() else "no folder"
        raise WineError(f"{folder}: found {what}, expected {expected}{hint}")
    if (folder / "pyvenv.cfg").exists() or (folder.parent / "pyvenv.cfg").exists():
        raise WineError(f"{folder}: found a virtual environment, expected {expected}; give what it was made from")
    if list(folder.glob("python3*._pth")):
        raise WineError(f"{folder}: found the embeddable package, expected {expected}; take the full installation")
    machine = _machine(program)
    if machine != MACHINE_X86_64:
        found_machine = MACHINES.get(machine, hex(machine))
        raise WineError(f"{program}: found a program for {found_machine}, expected one for x86-64")
    libraries = [each.name for each in folder.glob("python3*.dll")]
    versions = sorted(name[1] for name in (re.fullmatch(r"python3(\d+)\.dll", each) for each in libraries) if name)
    if versions != [str(VERSION[1])]:
        found_text = ", ".join(f"3.{minor}" for minor in versions) or "no python3*.dll"
        raise WineError(f"{folder}: found Python {found_text}, expected {expected}")
    if not (folder / "Lib" / "os.py").is_file():
        raise WineError(f"{folder}: found no Lib/os.py, expected {expected}")
    return folder.absolute()


def _machine(program: Path) -> int:
    """The machine number in a Windows program's header.

    Raises:
        WineError: it is no Windows program.
    """
    try:
        with program.open("rb") as file:
            if file.read(2) == b"MZ":
                file.seek(0x3C)
                (offset,) = struct.unpack("<I", file.read(4))
                file.seek(offset)
                if file.read(4) == b"PE\0\0":
                    (machine,) = struct.unpack("<H", file.read(2))
                    return int(machine)
    except (OSError, struct.error) as error:
        raise WineError(f"{program}: cannot be read: {error}") from None
    raise WineError(f"{program}: found no Windows program, expected python.exe of a Windows CPython")
