"""How many workers a run is spread over, and what it says of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.model.record import read_records
from conformance.run.workers import CELLS, GIB, MEMORY, workers

ROOT = Path(__file__).resolve().parents[2]
PLANTED = Path(__file__).with_name("planted")
AMPLE: dict[str, Any] = {"cores": 8, "memory": 64 * GIB, "gpus": None, "cells": 1600, "ranks": "forked"}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ({}, 8),
        ({"cores": 2}, 2),
        ({"cores": 1}, 1),
        ({"cores": 0.5}, 1),
        ({"cores": 3.9}, 3),
        ({"cells": 0}, 1),
        ({"cells": 2 * CELLS - 1}, 1),
        ({"cells": 2 * CELLS}, 2),
        ({"memory": 0}, 1),
        ({"memory": 8 * GIB}, 4),
        ({"memory": 8 * GIB, "ranks": "prewarmed"}, 2),
        ({"memory": 3 * GIB}, 1),
        ({"gpus": 0}, 1),
        ({"gpus": 1}, 1),
        ({"gpus": 3}, 3),
        ({"gpus": 3, "takes": [1, 2]}, 1),
        ({"gpus": 2, "takes": [1, 4]}, 2),
        ({"gpus": 4, "takes": [1, 4]}, 1),
        ({"gpus": 8, "takes": [1, 2, 4, 16]}, 2),
        ({"gpus": 64}, 8),
    ],
)
def test_workers(host: dict[str, Any], expected: int) -> None:
    assert workers(**{**AMPLE, **host}) == expected


@given(
    cores=st.floats(0.01, 512), memory=st.integers(0, 1 << 42), gpus=st.none() | st.integers(0, 64),
    takes=st.lists(st.integers(0, 9)), cells=st.integers(0, 10**5), ranks=st.sampled_from(sorted(MEMORY)),
)  # fmt: skip
def test_never_none_and_never_more_than_cores(**host: Any) -> None:
    assert 1 <= workers(**host) <= max(1, host["cores"])


TWO_CORES = """
import sys
from conformance.hosts import capabilities
from conformance.run import workers
workers.CELLS, capabilities.cores = 2, lambda: 2
workers.MEMORY_LEFT, workers.MEMORY = 0, {"forked": 1, "prewarmed": 1, "cold": 1}
from conformance.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def on_two_cores(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = ["run", "--lane", "linux_gloo", "--report-folder", str(folder), "--cell", "planted/check*"]
    places = ["--matrices", str(PLANTED / "matrices"), "--suites-folder", str(PLANTED / "suites")]
    command = [sys.executable, "-c", TWO_CORES, *words, *options, *places]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=170)


@pytest.mark.skipif(sys.platform != "linux", reason="the planted lane forks its ranks: Linux only")
@pytest.mark.parametrize(("options", "said"), [
    ((), "2 workers"), (("-n", "auto"), "2 workers"), (("-n", "0"), "1 worker"), (("-p", "no:xdist"), "1 worker"),
])  # fmt: skip
def test_a_run_says_first_over_how_many_workers_it_is_spread(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    ended = on_two_cores(tmp_path, *options)
    first = ended.stdout.partition("\n")[0]
    assert f", {said}: 5 cells" in first, ended.stdout + ended.stderr
    verdicts = {record.cell: record.verdict.value for record in read_records(tmp_path / "records.jsonl")}
    assert verdicts["planted/check[says=pass]"] == "PASS" and verdicts["planted/check[says=fail]"] == "FAIL"


@pytest.mark.skipif(sys.platform != "linux", reason="the planted lane forks its ranks: Linux only")
def test_a_list_is_made_by_one_process(tmp_path: Path) -> None:
    listed = on_two_cores(tmp_path / "none", "--list")
    assert listed.returncode == 0, listed.stderr
    assert "gw0" not in listed.stdout + listed.stderr and not (tmp_path / "none").exists()
