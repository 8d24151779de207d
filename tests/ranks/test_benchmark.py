"""The benchmark of ways of starting ranks: what it says, not how fast this host is."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tools.benchmarks import ranks
from tools.benchmarks.ranks import GIB, Measurement, MemoryMeter


def measurement(way: str, seconds: float, added: float = 0.1, memory: int = GIB) -> Measurement:
    return Measurement(way, jobs=40, seconds=seconds, first=2.0, wall=0.5, added=added, memory=memory)


def test_goals() -> None:
    cold = measurement("cold", 400.0)
    good = [measurement("forked", 40.0), measurement("prewarmed", 70.0), cold]
    assert ranks.misses(good) == []
    slow = [measurement("forked", 60.0, added=0.2, memory=4 * GIB), measurement("prewarmed", 100.0), cold]
    assert ranks.misses(slow) == [
        "forked: 6.7 times the jobs of cold ranks; goal 8",
        "forked: the harness adds 0.200 s to a job; goal 0.15 s",
        "forked: 4.00 GiB; goal 3 GiB",
        "prewarmed: 4.0 times the jobs of cold ranks; goal 5",
    ]


@pytest.mark.parametrize(("require", "code"), [([], 0), (["--require"], 1)])
def test_table_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, require: list[str], code: int
) -> None:
    seconds = {"forked": 100.0, "prewarmed": 40.0, "cold": 400.0}
    monkeypatch.setattr(ranks, "measure", lambda way, jobs, mpi: measurement(way, seconds[way]))
    assert ranks.main(["--json", str(tmp_path / "found.json"), *require]) == (code if sys.platform == "linux" else 0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2 if sys.platform == "linux" else -1].split() == [
        "cold",
        "40",
        "2.00",
        "6.0",
        "1.0",
        "0.500",
        "0.100",
        "1.00",
    ]
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert found[-1]["way"] == "cold"
    assert found[-2]["ratio"] == pytest.approx(10.0)


def test_memory_counts_what_is_taken_while_measured() -> None:
    with MemoryMeter() as meter:
        block = bytearray(256 << 20)
        block[:: 1 << 12] = b"x" * len(block[:: 1 << 12])
        time.sleep(1.0)
    assert meter.peak > 256 << 20
    assert len(block)
