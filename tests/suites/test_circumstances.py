"""What changes the surroundings of DeepSpeed does so, and puts everything back."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conformance.suites.common.circumstances import hostname_command, within, without_module


@pytest.mark.parametrize("name", ["json", "colorsys"])
def test_without_module(name: str) -> None:
    before = sys.modules.get(name)
    with without_module(name), pytest.raises(ModuleNotFoundError, match=name):
        importlib.import_module(f"{name}.decoder" if name == "json" else name)
    assert sys.modules.get(name) is before


@pytest.mark.skipif(os.name != "posix", reason="a shell script stands for the command")
@pytest.mark.parametrize(("answer", "output"), [("address", b"127.0.0.1 \n"), ("nothing", b"\n")])
def test_hostname_command_answers(tmp_path: Path, answer: str, output: bytes) -> None:
    path = os.environ["PATH"]
    with hostname_command(tmp_path, answer):
        assert subprocess.check_output(["hostname", "-I"]) == output
    assert os.environ["PATH"] == path


@pytest.mark.skipif(os.name != "posix", reason="a shell script stands for the command")
def test_hostname_command_fails_or_is_missing(tmp_path: Path) -> None:
    with hostname_command(tmp_path, "missing"), pytest.raises(FileNotFoundError):
        subprocess.check_output(["hostname", "-I"])
    with hostname_command(tmp_path, "failure"), pytest.raises(subprocess.CalledProcessError):
        subprocess.check_output(["hostname", "-I"])


def test_within() -> None:
    assert within(5, lambda: {"returned": 3}) == {"returned": 3}
    begin = time.monotonic()
    late = within(0.2, lambda: time.sleep(2) or {"returned": 3})
    assert time.monotonic() - begin < 1.5
    assert late["raised"]["type"] == "StillWaiting"
    assert late["raised"]["message"] == "after 0.2 s"
