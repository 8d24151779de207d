"""Building ops ahead, with a program that stands for DeepSpeed's builders."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from conformance.hosts.ops import lock
from conformance.hosts.ops import survey as surveying
from tools.ops import __main__ as command_line
from tools.ops import build as building

SUFFIX = ".pyd" if sys.platform == "win32" else ".so"

FAKE = f"""
import json, os, pathlib, subprocess, sys, time
what, argument = sys.argv[1:]
if what == "survey":
    answer = {{name: {{"compatible": True, "why": ""}} for name in ("cpu_adam", "cpu_lion", "hangs", "fails")}}
    answer["async_io"] = {{"compatible": False, "why": "async_io requires libaio"}}
    pathlib.Path(argument).write_text(json.dumps(answer))
    sys.exit()
folder = pathlib.Path(os.environ["TORCH_EXTENSIONS_DIR"]) / argument
folder.mkdir(parents=True, exist_ok=True)
(folder / "lock").touch(exist_ok=False)
print("[1/2] c++ -c first.cpp", flush=True)
if argument == "hangs":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "compiler of hangs"], cwd=folder)
    time.sleep(600)
if argument == "fails":
    (folder / "lock").unlink()
    print("first.cpp:1: error: no such thing", flush=True)
    sys.exit(1)
print("[2/2] c++ -shared", flush=True)
(folder / (argument + "{SUFFIX}")).touch()
(folder / "lock").unlink()
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of extensions on a host with a compiler, and a DeepSpeed without ops."""
    folder = tmp_path / "cache of öps"
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(folder))
    monkeypatch.setattr(surveying.ops, "installed_ops", frozenset)
    monkeypatch.setattr(surveying, "toolchain_lacks", lambda: None)
    monkeypatch.setattr(building, "SAY_EVERY", 0.0)
    return folder


@pytest.fixture
def child(tmp_path: Path) -> list[str]:
    file = tmp_path / "child.py"
    file.write_text(textwrap.dedent(FAKE), encoding="utf-8")
    return [sys.executable, str(file)]


def age(file: Path, seconds: float = 60.0) -> None:
    before = time.time() - seconds
    os.utime(file, (before, before))


def test_a_list_builds_nothing(cache: Path, child: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["--list", "cpu_adam", "async_io", "no_such"], child) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["cpu_adam", "not", "built"]
    assert lines[1].startswith("async_io  lacking    async_io requires libaio")
    assert ("apt-get install libaio-dev" in lines[1]) == (sys.platform == "linux")
    assert lines[2].endswith("this DeepSpeed has no such op for this accelerator")
    assert not cache.exists()


def test_what_can_be_built_is_built_once(cache: Path, child: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["cpu_adam", "async_io"], child) == 0
    assert (cache / "cpu_adam" / f"cpu_adam{SUFFIX}").exists()
    out = capsys.readouterr().out
    assert "cpu_adam: building, 1 of 1" in out
    assert out.splitlines()[-2].split()[:2] == ["cpu_adam", "built"]
    assert command_line.main(["cpu_adam", "async_io"], child) == 0
    assert "building" not in capsys.readouterr().out


def test_a_build_that_fails_shows_the_compilers_words(
    cache: Path, child: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["fails", "cpu_lion"], child) == 1
    out = capsys.readouterr().out
    assert "fails: the build ended with exit code 1, see" in out
    assert "first.cpp:1: error: no such thing" in out
    assert (cache / "cpu_lion" / f"cpu_lion{SUFFIX}").exists(), "the next op was not built"


def test_a_build_that_hangs_ends_at_the_deadline_and_leaves_nothing(
    cache: Path, child: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["hangs", "--deadline", "10"], child) == 1
    out = capsys.readouterr().out
    assert "hangs: not built within 10 s" in out
    assert "hangs: 1 of 2 files, " in out
    assert not (cache / "hangs" / "lock").exists()
    left = [each.pid for each in psutil.process_iter() if "compiler of hangs" in _words(each)]
    assert not left, f"compilers still run: {left}"


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_the_lock_of_a_build_that_was_killed_is_removed(
    cache: Path, child: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    baton = cache / "cpu_adam" / "lock"
    baton.parent.mkdir(parents=True)
    baton.touch()
    age(baton)
    assert command_line.main(["cpu_adam"], child) == 0
    assert f"cpu_adam: removing the lock of a build that did not end: {baton}" in capsys.readouterr().out


def test_the_lock_of_a_build_that_goes_on_is_left(
    cache: Path, child: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    baton = cache / "cpu_adam" / "lock"
    baton.parent.mkdir(parents=True)
    baton.touch()
    age(baton)
    with psutil.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd=baton.parent) as compiler:
        try:
            assert not lock.is_stale(baton)
            assert command_line.main(["cpu_adam", "--deadline", "1"], child) == 1
        finally:
            compiler.kill()
    assert "cpu_adam: another process still builds it after 1 s" in capsys.readouterr().out
    assert baton.exists()


def test_a_new_lock_is_trusted(tmp_path: Path) -> None:
    baton = tmp_path / "lock"
    baton.touch()
    assert not lock.is_stale(baton)
    age(baton)
    assert lock.is_stale(baton)


def test_without_a_toolchain_nothing_is_built(
    cache: Path, child: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(surveying, "toolchain_lacks", lambda: "the compiler cl: install it")
    assert command_line.main(["cpu_adam"], child) == command_line.NOTHING
    assert capsys.readouterr().out == "cpu_adam  lacking    the compiler cl: install it\n"
    assert not cache.exists()


@pytest.mark.parametrize(
    ("system", "there", "expected"),
    [
        ("win32", set(), "Visual Studio Build Tools"),
        ("win32", {"cl"}, "the command ninja"),
        ("win32", {"cl", "ninja"}, None),
        ("linux", {"cl", "ninja"}, "apt-get install g++"),
        ("linux", {"g++", "ninja"}, None),
    ],
)
def test_what_the_toolchain_lacks(
    system: str, there: set[str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name if name in there else None)
    found = surveying.toolchain_lacks(system)
    assert found is None if expected is None else expected in str(found)


def test_a_deepspeed_that_cannot_be_asked_is_an_error(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = [sys.executable, "-c", "raise SystemExit('no deepspeed here')"]
    assert command_line.main(["cpu_adam"], broken) == 1
    assert "could not be asked for its ops (exit code 1):\nno deepspeed here" in capsys.readouterr().err
