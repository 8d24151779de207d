"""Merging: what meets, what stays apart, what is missing."""

from __future__ import annotations

import datetime

from conformance.verdicts import Verdict
from reports.merge import merge
from tests.reports import factory

CELL = "zero/train[stage=2,dtype=bf16]"
OTHER = "zero/train[stage=3,dtype=bf16]"


def test_shards_of_one_run_meet_in_one_column() -> None:
    first = factory.record(CELL, provenance=factory.provenance("shard-1"))
    second = factory.record(OTHER, provenance=factory.provenance("shard-2"))
    headers = [factory.header([CELL], run="shard-1", shard="1/2"), factory.header([OTHER], run="shard-2", shard="2/2")]
    matrix = merge([first, second], headers)
    (column,) = matrix.columns
    assert [cell.id for cell in matrix.cells] == [CELL, OTHER]
    assert {slot.verdict for slot in matrix.column_slots(column)} == {Verdict.PASS}
    assert [run.id for run in column.runs] == ["shard-1", "shard-2"]


def test_lanes_stacks_integrations_wine_and_commits_stand_apart() -> None:
    records = [
        factory.record(),
        factory.record(lane="linux_mpi"),
        factory.record(stack="next"),
        factory.record(integration="lightning"),
        factory.record(provenance=factory.provenance(host=factory.WINE)),
        factory.record(provenance=factory.provenance(git_commit="0" * 40)),
        factory.record(provenance=factory.provenance(git_dirty=True)),
    ]
    matrix = merge(records)
    labels = [column.label for column in matrix.columns]
    assert len(labels) == 7
    assert len(set(labels)) == 7
    assert sum("Wine" in label for label in labels) == 1


def test_the_same_record_given_twice_counts_once() -> None:
    matrix = merge([factory.record(), factory.record()])
    slot = matrix.slot(matrix.cells[0], matrix.columns[0])
    assert slot is not None
    assert slot.others == ()


def test_duplicates_that_disagree_stay_visible_and_the_worst_counts() -> None:
    later = (factory.STARTED + datetime.timedelta(hours=1)).isoformat()
    failing = factory.record(verdict=Verdict.FAIL)
    passing = factory.record(started=later)
    for records in ([failing, passing], [passing, failing]):
        matrix = merge(records)
        slot = matrix.slot(matrix.cells[0], matrix.columns[0])
        assert slot is not None
        assert slot.verdict is Verdict.FAIL
        assert slot.disagree
        assert [other.verdict for other in slot.others] == [Verdict.PASS]


def test_a_host_that_lacks_something_does_not_disagree_with_one_that_has_it() -> None:
    records = [factory.record(), factory.record(verdict=Verdict.NOT_RUN, reason="needs 2 GPUs (found 0)")]
    matrix = merge(records)
    slot = matrix.slot(matrix.cells[0], matrix.columns[0])
    assert slot is not None
    assert slot.verdict is Verdict.PASS
    assert not slot.disagree
    assert len(slot.others) == 1


def test_planned_cells_that_were_never_reported_are_no_data() -> None:
    headers = [factory.header([CELL, OTHER], interrupted=True, finished=None, note="stopped from the keyboard")]
    matrix = merge([factory.record(CELL)], headers)
    (column,) = matrix.columns
    missing = matrix.slot(matrix.cells[1], column)
    assert missing is not None
    assert missing.verdict is Verdict.NO_DATA
    assert "1 of 2 cells reported" in missing.reason
    assert "stopped from the keyboard" in column.partial


def test_a_cell_that_no_plan_of_the_lane_holds_has_no_slot() -> None:
    headers = [factory.header([CELL]), factory.header([OTHER], lane="linux_mpi")]
    matrix = merge([factory.record(CELL), factory.record(OTHER, lane="linux_mpi")], headers)
    assert matrix.slot(matrix.cells[1], matrix.columns[0]) is None


def test_without_a_plan_every_known_cell_counts_as_planned() -> None:
    matrix = merge([factory.record(CELL), factory.record(OTHER, lane="linux_mpi")])
    slot = matrix.slot(matrix.cells[1], matrix.columns[0])
    assert slot is not None
    assert slot.verdict is Verdict.NO_DATA


def test_the_expected_cells_of_a_lane_widen_its_plan() -> None:
    matrix = merge([factory.record(CELL)], [factory.header([CELL])], expected={"linux_gloo": [CELL, OTHER]})
    slot = matrix.slot(matrix.cells[1], matrix.columns[0])
    assert slot is not None
    assert slot.verdict is Verdict.NO_DATA


def test_a_header_alone_makes_a_column_that_ran_nothing() -> None:
    matrix = merge([], [factory.header([CELL], finished=None)])
    (column,) = matrix.columns
    assert matrix.tally(column).percent is None
    assert matrix.tally(column)[Verdict.NO_DATA] == 1
    assert "has not finished" in column.partial
