"""A lane run in somebody's shell: with any locale and any of pytest's and Python's variables, it comes to the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.hosts import locales
from conformance.model.record import read_records
from conformance.model.verdict import NotRun

ROOT = Path(__file__).resolve().parents[2]
PLANTED = Path(__file__).with_name("planted")
OPTIONS = ("--lane", "linux_gloo", "--cell", "planted/check[says=pass]", "--matrices", str(PLANTED / "matrices"))
OWN = (sys.executable, "-m", "conformance", "run", *OPTIONS)
PYTEST = (sys.executable, "-m", "pytest", *OPTIONS)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the planted lane forks its ranks: Linux only")


def run(command: tuple[str, ...], *options: str, told: dict[str, str | None]) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in {**os.environ, **told}.items() if value is not None}
    words = [*command, *options, "--suites-folder", str(PLANTED / "suites")]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, timeout=170)


def said(ended: subprocess.CompletedProcess[bytes]) -> str:
    return (ended.stdout + ended.stderr).decode("utf-8", "replace")


@pytest.mark.parametrize("name", ["PYTEST_ADDOPTS=--cov=src", "PYTEST_ADDOPTS=-k mine", "PYTEST_PLUGINS=no_such_one"])
def test_what_a_shell_tells_pytest_is_named_and_not_used(name: str) -> None:
    variable, _, value = name.partition("=")
    ended = run(OWN, "--list", told={variable: value})
    assert ended.returncode == 0, said(ended)
    assert ended.stdout.decode().splitlines() == ["planted/check[says=pass]"]
    assert f"{variable}={value!r} is set and not used" in said(ended)


@pytest.mark.parametrize("command", [OWN, PYTEST], ids=["own", "pytest"])
@pytest.mark.parametrize("way", ["no autoload", "no xdist"])
def test_xdist_need_not_be_there(command: tuple[str, ...], way: str) -> None:
    told: dict[str, str | None] = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if way == "no autoload" else {}
    ended = run(command, *(["-p", "no:xdist"] if way == "no xdist" else []), "--list", told=told)
    assert ended.returncode == 0, said(ended)
    assert "planted/check[says=pass]" in said(ended)
    assert "INTERNALERROR" not in said(ended)


def test_pytest_itself_that_selects_nothing_names_the_variable(tmp_path: Path) -> None:
    ended = run(PYTEST, "--report-folder", str(tmp_path), told={"PYTEST_ADDOPTS": "-k mine"})
    assert ended.returncode == 3
    assert "error: no cell ran; --list shows what there is; PYTEST_ADDOPTS is '-k mine'" in said(ended)


def test_a_run_without_assert_statements_is_refused() -> None:
    ended = run(OWN, "--list", told={"PYTHONOPTIMIZE": "1"})
    assert ended.returncode == 2
    assert said(ended).strip().splitlines() == [
        "error: Python leaves out assert statements (-O or PYTHONOPTIMIZE), with which checks judge; run it without"
    ]


@pytest.mark.parametrize("kind", ["warnings", *locales.LOCALES])
def test_a_cell_passes_whatever_locale_and_warnings_are_asked_for(tmp_path: Path, kind: str) -> None:
    try:
        told = {"PYTHONWARNINGS": "error"} if kind == "warnings" else locales.variables(kind, utf8_mode=False)
    except NotRun as lack:
        pytest.skip(str(lack))
    folder = tmp_path / ("records" if kind == "ja_JP" else "größe")
    ended = run(OWN, "--report-folder", str(folder), told=told)
    (record,) = read_records(folder / "records.jsonl")
    assert (record.verdict.value, record.reason, ended.returncode) == ("PASS", "", 0), said(ended)


def test_a_folder_that_the_locale_cannot_name_is_refused_in_one_line(tmp_path: Path) -> None:
    try:
        told = locales.variables("ja_JP", utf8_mode=False)
    except NotRun as lack:
        pytest.skip(str(lack))
    ended = run(OWN, "--report-folder", str(tmp_path / "größe"), told=told)
    assert ended.returncode == 2, said(ended)
    (line,) = said(ended).strip().splitlines()
    assert "no such name can be written in this locale" in line and "set PYTHONUTF8=1" in line
