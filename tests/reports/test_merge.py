"""Merging: what meets, what stays apart, what is missing."""

from __future__ import annotations

import datetime
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.model.record import Record, to_line
from conformance.model.verdict import UNEXPECTED, Verdict
from reports.merge import merge, parse_cell_id
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


def test_lanes_stacks_integrations_mpis_wine_and_commits_stand_apart() -> None:
    records = [
        factory.record(),
        factory.record(lane="linux_mpi"),
        factory.record(transport="mpi"),
        factory.record(stack="next"),
        factory.record(integration="lightning"),
        factory.record(provenance=factory.provenance(host=factory.WINE)),
        factory.record(lane="linux_mpi", provenance=factory.provenance(mpi="MPICH 5.0.2")),
        factory.record(provenance=factory.provenance(git_commit="0" * 40)),
        factory.record(provenance=factory.provenance(git_dirty=True)),
    ]
    matrix = merge(records)
    labels = [column.label for column in matrix.columns]
    assert len(labels) == 9
    assert len(set(labels)) == 9
    assert sum("(MPICH)" in label for label in labels) == 1
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


def test_a_resumed_run_counts_what_earlier_runs_reported() -> None:
    headers = [factory.header([CELL, OTHER], run="second", interrupted=True)]
    matrix = merge([factory.record(CELL, provenance=factory.provenance("first"))], headers)
    (column,) = matrix.columns
    assert column.partial == "run second was interrupted: 1 of 2 cells reported"
    assert matrix.tally(column)[Verdict.NO_DATA] == 1


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
    assert matrix.tally(column).tested == 0
    assert matrix.tally(column)[Verdict.NO_DATA] == 1
    assert "has not finished" in column.partial


def test_a_cell_that_a_lane_leaves_out_has_its_reason_and_no_slot() -> None:
    headers = [factory.header([CELL], excluded={OTHER: "no GPU there"})]
    matrix = merge([factory.record(CELL)], headers, expected={"linux_gloo": [CELL, OTHER]})
    (column,) = matrix.columns
    assert matrix.slot(matrix.cells[1], column) is None
    assert matrix.excluded[OTHER, column.key] == "no GPU there"


def test_a_header_without_provenance_meets_the_records_of_its_run() -> None:
    matrix = merge([factory.record(CELL)], [factory.header([CELL, OTHER], provenance=None)])
    (column,) = matrix.columns
    assert matrix.tally(column)[Verdict.NO_DATA] == 1


def test_runs_of_one_column_with_other_versions_are_pointed_out() -> None:
    other = factory.provenance("run-2", packages=factory.PACKAGES | {"torch": "2.12.0+cpu"})
    matrix = merge([factory.record(CELL), factory.record(OTHER, provenance=other)])
    assert matrix.columns[0].mixed_versions == {"torch": ("2.13.0+cpu", "2.12.0+cpu")}


def test_lanes_that_differ_in_the_commit_alone_are_labelled_with_it() -> None:
    matrix = merge([factory.record(), factory.record(provenance=factory.provenance(git_commit="0" * 40))])
    assert [column.label for column in matrix.columns] == ["Linux · CPU · @0000000", "Linux · CPU · @5f3c9f0"]


@pytest.mark.parametrize(
    ("cell", "parts"),
    [
        ("zero/train[stage=2,dtype=bf16]", ("zero", "train", {"stage": 2, "dtype": "bf16"})),
        ("zero/train[clip=false,rate=0.5]", ("zero", "train", {"clip": False, "rate": 0.5})),
        ("initialize/args_omitted", ("initialize", "args_omitted", {})),
        ("what is this", ("other", "what is this", {})),
    ],
)
def test_a_cell_known_by_its_id_alone_has_its_parts(cell: str, parts: tuple[str, str, dict[str, object]]) -> None:
    found = parse_cell_id(cell)
    assert (found.suite, found.case, found.axes) == parts
    assert [type(value) for value in found.axes.values()] == [type(value) for value in parts[2].values()]


RECORDS = st.builds(
    factory.record,
    st.sampled_from([CELL, OTHER, "launch/env"]),
    st.sampled_from(Verdict),
    lane=st.sampled_from(["linux_gloo", "windows_mpi"]),
    started=st.sampled_from(["2026-03-01T02:00:00Z", "2026-03-02T02:00:00Z", "long ago"]),
    reason=st.text(max_size=8),
)


@given(st.lists(RECORDS, max_size=12), st.randoms())
def test_no_record_is_lost_and_their_order_does_not_matter(records: list[Record], chance: random.Random) -> None:
    matrix = merge(records, now=factory.STARTED)
    kept = [
        record
        for slot in matrix.slots.values()
        for record in ([slot.record] if slot.record else []) + list(slot.others)
    ]
    assert sorted(map(to_line, kept)) == sorted({to_line(record) for record in records})
    shuffled = list(records)
    chance.shuffle(shuffled)
    again = merge(shuffled, now=factory.STARTED)
    assert again.columns == matrix.columns
    assert {cell.id for cell in again.cells} == {cell.id for cell in matrix.cells}
    assert again.slots == matrix.slots


@given(st.lists(RECORDS, min_size=1, max_size=12))
def test_a_pass_never_hides_a_worse_record(records: list[Record]) -> None:
    matrix = merge(records)
    for record in records:
        column = next(column for column in matrix.columns if column.key.lane == record.lane)
        slot = matrix.slots[record.cell, column.key]
        if record.verdict in UNEXPECTED:
            assert slot.verdict in UNEXPECTED
        if slot.verdict is Verdict.PASS:
            assert record.verdict in (Verdict.PASS, Verdict.NOT_RUN, Verdict.NO_DATA)


@given(st.lists(RECORDS, max_size=12))
def test_counts_add_up(records: list[Record]) -> None:
    matrix = merge(records)
    for column in matrix.columns:
        tally = matrix.tally(column)
        assert tally.total == len(matrix.column_slots(column))
        assert tally.total == tally.tested + tally.refused + tally.untested
        assert tally[Verdict.PASS] <= tally.tested


def test_the_lanes_as_they_run_by_default_come_first() -> None:
    made = [
        factory.record("zero/a", stack=stack, integration=integration, lane=lane)
        for stack, integration, lane in (
            ("deepspeed-0.16", "reference", "linux_gloo"),
            ("pinned", "accelerate", "linux_gloo"),
            ("pinned", "reference", "windows_gloo"),
            ("pinned", "reference", "linux_gloo"),
        )
    ]
    order = [(column.key.stack, column.key.integration, column.key.lane) for column in merge(made).columns]
    assert order == [
        ("pinned", "reference", "linux_gloo"),
        ("pinned", "reference", "windows_gloo"),
        ("pinned", "accelerate", "linux_gloo"),
        ("deepspeed-0.16", "reference", "linux_gloo"),
    ]
