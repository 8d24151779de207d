"""What an examination makes of the answers that an environment gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.wine import probe
from tools.wine.doctor import Finding, examine, parse_answer
from tools.wine.environment import WineEnvironment
from tools.wine.requirements import Requirements, read_requirements

StandIn = Callable[..., WineEnvironment]

ANSWERS: dict[str, dict[str, Any]] = {
    "versions": {"platform": "win32", "python": "3.11.9", "packages": {}},
    "sockets": {"echo": "to and fro", "address": "127.0.0.1"},
    "training": {"gradient": [[1.0, 1.0]], "gloo": True, "torch": "2.13.0+cpu", "deepspeed": "0.19.8"},
    "ranks": {"ranks": 2, "library": "Intel(R) MPI Library"},
}


@pytest.fixture(scope="module")
def requirements() -> Requirements:
    return read_requirements()


@pytest.fixture
def findings(stand_in: StandIn, requirements: Requirements) -> Callable[..., list[Finding]]:
    """Examines an environment that gives the right answers but for those given, and returns all findings."""

    def examined(**others: dict[str, Any] | str) -> list[Finding]:
        packages = {str(pin.name).replace("-", "_"): str(pin.version) for pin in requirements.pins}
        answers: dict[str, Any] = {**ANSWERS, "versions": {**ANSWERS["versions"], "packages": packages}}
        answers.update(others)
        body = f"answers = {answers!r}\nanswer = answers[sys.argv[-1]]\nimport json\n"
        body += "if isinstance(answer, str): print(answer); sys.exit(1)\nprint('warning'); print(json.dumps(answer))"
        return list(examine(stand_in(body), requirements))

    return examined


def test_an_environment_that_works(findings: Callable[..., list[Finding]], requirements: Requirements) -> None:
    found = findings()
    assert [finding.what for finding in found] == ["wine", "python", "packages", "sockets", "training", "mpiexec"]
    assert all(finding.ok and not finding.remedy for finding in found)
    assert str(found[2]) == f"ok   packages: all {len(requirements.pins)} as pinned"


@pytest.mark.parametrize(
    ("others", "what", "text"),
    [
        ({"versions": "ImportError: DLL load failed"}, "python", "found exit code 1: ImportError: DLL load failed"),
        ({"versions": {**ANSWERS["versions"], "python": "3.12.1"}}, "python", "found 3.12.1 on win32, expected 3.11"),
        ({"versions": {**ANSWERS["versions"], "platform": "linux"}}, "python", "found 3.11.9 on linux"),
        ({"versions": ANSWERS["versions"]}, "packages", "torch absent (expected 2.13.0)"),
        ({"sockets": "OSError: [WinError 10038]"}, "sockets", "WinError 10038"),
        ({"sockets": {"echo": "to", "address": "?"}}, "sockets", "found 'to', expected 'to and fro'"),
        ({"training": "module not found"}, "training", "module not found"),
        ({"training": {**ANSWERS["training"], "gloo": False}}, "training", "'gloo': False"),
        ({"training": {**ANSWERS["training"], "gradient": [[0.0, 1.0]]}}, "training", "[[0.0, 1.0]]"),
        ({"ranks": {"ranks": 1, "library": "MPICH"}}, "mpiexec", "found worlds of 1, expected one of 2"),
        ({"ranks": "Abort(1)"}, "mpiexec", "Abort(1)"),
    ],
)
def test_what_does_not_work_is_found_told_and_the_last(
    findings: Callable[..., list[Finding]], others: dict[str, Any], what: str, text: str
) -> None:
    *before, last = findings(**others)
    assert all(finding.ok for finding in before)
    assert not last.ok
    assert last.what == what
    assert text in last.found
    assert last.remedy


def test_another_version_of_a_package(findings: Callable[..., list[Finding]], requirements: Requirements) -> None:
    packages = {str(pin.name): str(pin.version) for pin in requirements.pins}
    for version, right in (("2.13.0+cpu", True), ("2.12.0", False), ("not a version", False)):
        packages["torch"] = version
        found = {finding.what: finding for finding in findings(versions={**ANSWERS["versions"], "packages": packages})}
        assert found["packages"].ok is right


def test_no_mpi_is_asked_for_where_none_is_pinned(stand_in: StandIn, tmp_path: Path) -> None:
    pins = tmp_path / "pins.txt"
    pins.write_text("torch==2.13.0\n", encoding="utf-8")
    packages = {"torch": "2.13.0"}
    answers = {**ANSWERS, "versions": {**ANSWERS["versions"], "packages": packages}, "ranks": None}
    environment = stand_in(f"import json\nprint(json.dumps({answers!r}[sys.argv[-1]]))")
    assert [finding.what for finding in examine(environment, read_requirements(pins))][-1] == "training"


def test_an_environment_that_is_gone(stand_in: StandIn, requirements: Requirements) -> None:
    environment = stand_in()
    environment.python.unlink()
    (finding,) = examine(environment, requirements)
    assert not finding.ok
    assert str(environment.python) in finding.found
    environment.wine.unlink()
    (finding,) = examine(environment, requirements)
    assert "apt-get install --no-install-recommends wine64" in finding.remedy


def test_answers_of_two_ranks_on_one_line() -> None:
    assert parse_answer('noise\n{"ranks": 2}{"ranks": 2}\n\n') == {"ranks": 2}
    assert parse_answer("{broken\n[1]\nnoise") is None
    assert parse_answer("") is None


def test_the_probe_answers_here_too() -> None:
    assert probe.sockets()["echo"] == "to and fro"
    answer = json.loads(json.dumps(probe.versions()))
    assert answer["packages"]["pytest"] == pytest.__version__
