"""The script for hosts with GPUs: the whole way, on the lane that runs anywhere, and what it says without a GPU."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "gpu_host.py"
CELL = "launch/complete_environment[call=reference,*"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words], capture_output=True, encoding="utf-8", errors="replace", timeout=300
    )


@pytest.mark.skipif(sys.platform != "linux", reason="runs linux_gloo")
def test_the_whole_way(tmp_path: Path) -> None:
    into = tmp_path / "records of Grün"
    result = run("--into", str(into), "--lane", "linux_gloo", "--cell", CELL)
    assert result.returncode == 0, result.stdout + result.stderr
    with zipfile.ZipFile(into.with_name(into.name + ".zip")) as archive:
        names = set(archive.namelist())
        assert {"smoke/records.jsonl", "full/records.jsonl", "full/run.json", "report/index.html"} <= names
        records = archive.read("full/records.jsonl").decode("utf-8").splitlines()
    assert len(records) == 2
    assert all('"verdict":"PASS"' in record for record in records)


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU here")
def test_a_host_without_a_gpu_is_told_what_is_lacking_and_nothing_is_green(tmp_path: Path) -> None:
    result = run("--into", str(tmp_path / "gpu"), "--cell", "gpu/parameters[stage=3,dtype=bf16,world=2]")
    assert result.returncode == 3
    assert "needs " in result.stdout
    assert "the smoke profile ended with 3" in result.stderr
    assert not (tmp_path / "gpu" / "full").exists()
    assert run("--into", str(tmp_path / "none"), "--cell", "no/such[cell]").returncode == 2
    assert '"verdict":"PASS"' not in (tmp_path / "gpu" / "smoke" / "records.jsonl").read_text(encoding="utf-8")
