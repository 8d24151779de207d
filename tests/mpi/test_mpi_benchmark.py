"""The benchmark of transports: its verdict, its table, and a short run of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.hosts import mpi_library
from conformance.model.verdict import NotRun
from tests.mpi.mpi_jobs import Starter
from tools.benchmarks import transport
from tools.benchmarks.transport import MIB, OPERATIONS, Measurement


def test_ratio_is_of_bandwidths() -> None:
    fast = Measurement("all_reduce", 8 * MIB, {"mpi4py": 0.5, "gloo": 2.0})
    assert fast.ratio == 4
    assert fast.row().split() == ["all_reduce", "8", "MiB", "16.0", "4.0", "4.00"]


def test_only_large_tensors_must_be_fast(capsys: pytest.CaptureFixture[str]) -> None:
    small = Measurement("all_reduce", MIB, {"mpi4py": 2.0, "gloo": 1.0})
    assert transport.judge([small], 1.0) == 0
    large = Measurement("all_gather", 4 * MIB, {"mpi4py": 2.0, "gloo": 1.0})
    assert transport.judge([small, large], 1.0) == 1
    assert "all_gather of 4 MiB: 0.50 of gloo" in capsys.readouterr().out


def test_without_an_mpi_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def none() -> None:
        raise NotRun("an MPI", "install one")

    monkeypatch.setattr(mpi_library, "find", none)
    assert transport.main([]) == 2
    assert "needs an MPI; install one" in capsys.readouterr().err


def test_a_short_run(
    start: Starter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mpi_library, "find", lambda: start.mpi)
    result = tmp_path / "result.json"
    assert transport.main(["--rounds", "2", "--sizes", "4096", "65536", "--json", str(result)]) == 0
    found = json.loads(result.read_text(encoding="utf-8"))
    assert [(each["operation"], each["nbytes"]) for each in found] == [
        (operation, size) for operation in OPERATIONS for size in (4096, 65536)
    ]
    assert all(0 < seconds < 60 for each in found for seconds in each["seconds"].values())
    table = capsys.readouterr().out
    assert str(start.mpi) in table and table.count("reduce_scatter") == 2
