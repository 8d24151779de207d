"""The archive that replays a cell: what is in it, what it says where packages are missing, and that it replays."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.repro import exact

CELL = "collectives/operation[operation=all_reduce,dtype=fp32,shape=strided,members=world,world=2]"


def run(file: Path, *options: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run the archive where nothing of this project can be imported by chance."""
    command = [sys.executable, "-P", *options, str(file)]
    return subprocess.run(
        command, cwd=file.parent, capture_output=True, encoding="utf-8", errors="replace", timeout=seconds, check=False
    )


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("exact") / "a repro.pyz"
    assert main(["repro", CELL, "--exact", "--into", str(file)]) == 0
    return file


def test_the_archive_holds_the_harness_and_no_records_of_other_runs(archive: Path) -> None:
    names = zipfile.ZipFile(archive).namelist()
    assert {"__main__.py", "replay.json", "harness/conformance/plugin.py", "harness/pyproject.toml"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or "published/" in name]
    assert archive.stat().st_size < 3_000_000


def test_what_is_not_installed_is_told_in_one_line(archive: Path) -> None:
    done = run(archive, "-I", "-S", seconds=60)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: not installed: deepspeed, filelock, ") and "torch; pip install deepspeed" in line


def test_what_it_needs_is_what_the_project_says(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(
        '[project]\nname = "own"\ndependencies = ["torch>=2"]\n'
        '[project.optional-dependencies]\nharness = ["own[mpi]", "rich>=13"]\nmpi = ["mpi4py"]\nother = ["other>=1"]\n',
        encoding="utf-8",
    )
    assert exact.distributions(file, "deepspeed") == ["mpi4py", "rich", "torch"]
    assert exact.distributions(file, "other") == ["mpi4py", "other", "rich", "torch"]


@pytest.mark.slow
def test_it_replays_the_cell_and_ends_as_its_run(archive: Path) -> None:
    done = run(archive, seconds=400)
    assert done.returncode == 1, done.stdout + done.stderr[-2000:]
    assert "tensor 0 is" in done.stdout and (archive.parent / "replay-results" / "records.jsonl").exists()
