"""`python -m tools.hosts`: usage, the list of kinds, one kind run for real, and an interrupted one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from conformance.model.record import EMULATED, read_records, to_line
from conformance.model.verdict import Verdict
from tests.reports import factory
from tools.hosts import pythons
from tools.hosts.__main__ import main
from tools.hosts.errors import UsageError
from tools.hosts.kinds import KINDS
from tools.hosts.pythons import Python
from tools.hosts.running import ROOT

LANE = "windows_gloo" if sys.platform == "win32" else "linux_gloo"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--kind", "mainframe"], "--kind: found 'mainframe', expected one of plain, isa-avx2"),
        (["--lane", "solaris_gloo"], "--lane: found 'solaris_gloo', expected one of linux_gloo"),
        (["--lane", "linux_gloo" if sys.platform == "win32" else "windows_gloo"], "expected one for this system"),
        (["--stack", "none"], "--stack: found 'none', expected one of"),
        (["--cell", "zero/nothing*"], "'zero/nothing*' matches no cell"),
        (["--python", "/no/such/python"], "--python: found '/no/such/python'"),
        (["--kind", "fp16-in-software", "--cell", "collectives/barrier*"], "no cell of"),
        (["--deadline", "0"], "--deadline: found 0, expected seconds above 0"),
    ],
)
def test_wrong_usage(words: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([*words, "--into", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([], "--plain:"),
        ([("plain", "initialize/torch_first[call=deepspeed,world=2]")], "lacks"),
        ([("emulated", "initialize/torch_first[call=deepspeed,world=2]")], "records of the emulated host one-core"),
    ],
)
def test_records_that_cannot_stand_for_the_plain_run(
    records: list[tuple[str, str]], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    host = factory.LINUX.model_copy(update={"host_class": f"{EMULATED}one-core"})
    lines = [
        to_line(factory.record(cell, provenance=factory.provenance(host=host if kind == "emulated" else factory.LINUX)))
        for kind, cell in records
    ]
    if lines:
        (old / "records.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    cells = ["--cell", "initialize/torch_first[call=deepspeed,world=2]", "--kind", "umask-077"]
    cells = cells if says != "lacks" else ["--cell", "initialize/*"]
    assert main([*cells, "--plain", str(old), "--into", str(new)]) == 2
    assert says in capsys.readouterr().err
    assert not new.exists()


def test_the_list_has_every_kind_and_runs_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--list", "--into", str(tmp_path)]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed[: len(KINDS) + 1] == ["plain", *(kind.name for kind in KINDS)]
    assert not list(tmp_path.iterdir())


def test_fp16_in_software_differs_from_a_processor_without_and_the_records_are_marked(tmp_path: Path) -> None:
    cell = "zero/train[stage=1,dtype=fp16,world=1,accumulation=1,clipping=true]"
    words = ["--kind", "fp16-in-software", "--cell", cell, "--into", str(tmp_path), "--deadline", "300"]
    command = [sys.executable, "-m", "tools.hosts", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=600)
    (plain,) = read_records(tmp_path / "plain" / "records.jsonl")
    (emulated,) = read_records(tmp_path / "fp16-in-software" / "records.jsonl")
    assert emulated.verdict is Verdict.PASS, ended.stdout
    assert emulated.provenance.host.emulated == "fp16-in-software"
    assert plain.provenance.host.emulated == ""
    page = (tmp_path / "hosts.md").read_text(encoding="utf-8")
    if plain.verdict is Verdict.UNSUPPORTED:
        assert "1 × UNSUPPORTED → PASS (fp16: false → true)" in page
    assert ended.returncode == 0, ended.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to heed")
def test_a_terminated_command_leaves_nothing_running(tmp_path: Path) -> None:
    words = ["--kind", "umask-077", "--into", str(tmp_path)]
    with subprocess.Popen([sys.executable, "-m", "tools.hosts", *words], cwd=ROOT, stdout=subprocess.DEVNULL) as tool:
        limit = time.monotonic() + 120
        while not (tmp_path / "plain" / "run.json").exists() and time.monotonic() < limit:
            time.sleep(0.1)
        seen = set(psutil.Process(tool.pid).children(recursive=True))
        tool.send_signal(signal.SIGTERM)
        tool.wait(120)
    assert len(seen) >= 2
    assert tool.returncode == 1
    assert not [process for process in seen if process.is_running()]


class TestPythons:
    def test_an_interpreter_that_is_given_is_asked(self) -> None:
        (python, *_) = [each for each in pythons.found([Path(sys.executable)]) if each.path == sys.executable]
        assert python.line == f"{sys.version_info.major}.{sys.version_info.minor}"
        assert python.lacks == ()
        assert pythons.kind(python).python == sys.executable

    def test_what_is_no_interpreter_is_refused_where_it_was_given(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="expected the interpreter of an environment"):
            pythons.found([tmp_path / "python"])

    @pytest.mark.skipif(sys.platform == "win32", reason="a script is no program there")
    def test_a_shim_of_a_version_that_is_not_there_is_passed_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shim, real = tmp_path / "python3.12", tmp_path / "python3.13"
        shim.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
        real.write_text(f"#!/bin/sh\necho '{json.dumps(['3.13.1', ['torch']])}'\n", encoding="utf-8")
        for file in (shim, real):
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{Path(shutil.which('sh') or '/bin/sh').parent}")
        found = [each for each in pythons.found([]) if Path(each.path).parent == tmp_path]
        assert [(each.line, each.lacks) for each in found] == [("3.13", ("torch",))]
        why = pythons.missing(found, SpecifierSet(">=3.10,<3.15"))
        assert why["python-3.12"] == f"{shim} does not start"
        assert "python-3.13" not in why and "python-3.15" not in why

    def test_what_stops_one_is_said(self) -> None:
        supported = SpecifierSet(">=3.11,<3.14")
        assert pythons.obstacle(Python("p", Version("3.12.1"), ()), supported) is None
        assert "has no torch" in (pythons.obstacle(Python("p", Version("3.12.1"), ("torch",)), supported) or "")
        assert "the stack is for Python" in (
            pythons.obstacle(Python("p", Version("3.14.0"), ("torch",)), supported) or ""
        )
