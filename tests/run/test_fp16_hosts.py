"""The same cells on hosts with and without fp16: verdicts differ, and all of them are explained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.model.record import Record, read_records
from tools.hosts.running import PRELOAD

ROOT = Path(__file__).resolve().parents[2]
UNCLEAR = Path(__file__).with_name("planted") / "unclear_fp16"
CELLS = "zero/train[stage=?,dtype=fp16,world=1,accumulation=1,clipping=false]"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs the lane linux_gloo")


def run(folder: Path, *options: str, **variables: str) -> tuple[subprocess.CompletedProcess[str], dict[int, Record]]:
    words = ["run", "--lane", "linux_gloo", "--report-folder", str(folder), "--cell", CELLS, *options]
    ended = subprocess.run(
        [sys.executable, "-m", "conformance", *words], cwd=ROOT, env={**os.environ, **variables}, capture_output=True,
        encoding="utf-8", timeout=400,
    )  # fmt: skip
    return ended, {int(str(record.axes["stage"])): record for record in read_records(folder / "records.jsonl")}


def verdicts(records: dict[int, Record]) -> list[str]:
    return [records[stage].verdict.value for stage in sorted(records)]


def test_without_fp16_it_is_refused(tmp_path: Path) -> None:
    ended, records = run(tmp_path, ONEDNN_MAX_CPU_ISA="AVX2", ATEN_CPU_CAPABILITY="avx2")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert verdicts(records) == ["UNSUPPORTED"] * 4
    assert {record.provenance.host.capabilities["fp16"] for record in records.values()} == {False}
    where = records[0].provenance
    assert (where.host.capabilities["onednn_isa"], where.host.capabilities["aten_isa"]) == ("Intel AVX2", "AVX2")
    assert where.environment["ONEDNN_MAX_CPU_ISA"] == "AVX2" and where.environment["ATEN_CPU_CAPABILITY"] == "avx2"
    header = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert header["provenance"]["host"]["capabilities"]["fp16"] is False


def test_with_fp16_it_trains_and_the_known_fault_shows(tmp_path: Path) -> None:
    ended, records = run(tmp_path, PYTHONPATH=str(PRELOAD))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert verdicts(records) == ["XFAIL", "PASS", "PASS", "PASS"]
    assert records[0].known_issue is not None and records[0].known_issue.id == "stage0-fp16-loss-not-scaled"
    header = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert header["provenance"]["host"]["capabilities"]["fp16"] is True


def test_where_it_is_not_known_the_run_says_so_and_no_entry_applies(tmp_path: Path) -> None:
    ended, records = run(tmp_path, PYTHONPATH=os.pathsep.join([str(PRELOAD), str(UNCLEAR)]))
    assert ended.returncode == 1
    assert "not known of this host: fp16 (RuntimeError: the accelerator says True" in ended.stdout
    assert "fp16" not in records[0].provenance.host.capabilities and "bf16" in records[0].provenance.host.unknown
    assert verdicts(records)[0] == "FAIL"
