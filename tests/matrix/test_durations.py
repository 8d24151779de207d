"""Durations: taken from records, laid over what was known, and read for shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.matrix import MatrixError
from conformance.matrix.durations import durations_of, read_durations, write_durations
from conformance.model.verdict import Verdict
from tests.reports.factory import record


def test_the_median_of_what_ran_counts() -> None:
    records = [record(cell="a/b", seconds=seconds) for seconds in (1.0, 9.0, 2.0)]
    skipped = record(cell="a/c", seconds=5.0, verdict=Verdict.NOT_RUN, reason="needs a GPU", remedy="buy one")
    assert durations_of([*records, skipped]) == {"a/b": 2.0}


def test_new_times_are_laid_over_old_ones(tmp_path: Path) -> None:
    assert read_durations(tmp_path) == {}
    write_durations(tmp_path, {"a/b": 1.0, "a/c": 2.0})
    write_durations(tmp_path, {"a/b": 3.0})
    assert read_durations(tmp_path) == {"a/b": 3.0, "a/c": 2.0}


@pytest.mark.parametrize("text", ["[1]", '{"a": "slow"}', "{"])
def test_a_wrong_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "durations.json").write_text(text, encoding="utf-8")
    with pytest.raises(MatrixError, match=r"durations\.json"):
        read_durations(tmp_path)
