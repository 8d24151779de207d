"""The backend mpi4py, in ranks: every operation by value. The checks are in transport_in_ranks.py."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.mpi.mpi_jobs import HERE, Starter

SCRIPT = HERE / "transport_in_ranks.py"
CHECKS = [
    node.name
    for node in ast.parse(SCRIPT.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and any(isinstance(each, ast.Name) for each in node.decorator_list)
]
WORLDS = (2, 3)


@pytest.fixture(scope="session")
def results() -> dict[tuple[str, int], dict[str, Any]]:
    """Of the jobs so far: one runs all checks."""
    return {}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("check", CHECKS)
def test_check(
    start: Starter, world: int, check: str, results: dict[tuple[str, int], dict[str, Any]], tmp_path: Path
) -> None:
    key = (start.mpi.vendor, world)
    if key not in results:
        report = tmp_path / "résultat.json"
        ended = start(world, [str(SCRIPT), str(report)])
        assert report.is_file(), f"exit code {ended.code}\n{ended.output}"
        results[key] = json.loads(report.read_text(encoding="utf-8")) | {"code": ended.code, "output": ended.output}
    errors = results[key]["errors"]
    if check not in errors:
        failed = [name for name, each in errors.items() if any(each)]
        pytest.skip(f"not reached: {failed} failed before")
    assert errors[check] == [None] * world, "\n".join(filter(None, errors[check]))


@pytest.mark.parametrize("world", WORLDS)
def test_the_job_ends_well(start: Starter, world: int, results: dict[tuple[str, int], dict[str, Any]]) -> None:
    """Destroying the groups and finalising MPI: no hang, no crash, no handle left unwaited."""
    job = results.get((start.mpi.vendor, world))
    if job is None:
        pytest.skip("needs the checks: run this file as a whole")
    assert job["code"] == 0, job["output"]
    assert "unwaited" not in job["output"] and "Traceback" not in job["output"], job["output"]
