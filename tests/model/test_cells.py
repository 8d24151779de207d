"""Cells: ids, globs and shards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from conformance.model.cell import Cell, matches, shard


def cell(number: int) -> Cell:
    return Cell(
        suite="zero", case="train", axes={"stage": number, "on": True}, title="t", rules=("Z-01",), deadline=1.0
    )


def test_an_id_reads_as_suite_case_and_axes() -> None:
    assert cell(2).id == "zero/train[stage=2,on=true]"
    assert Cell(suite="a", case="b", axes={}, title="t", rules=("Z-01",), deadline=1.0).id == "a/b"


def test_brackets_in_a_glob_stand_for_themselves() -> None:
    assert matches("zero/train[stage=2,*]", "zero/train[stage=2,on=true]")
    assert not matches("zero/train[stage=2]", "zero/trains")
    assert not matches("zero", "zero/train")


@given(
    st.integers(1, 40),
    st.integers(1, 6),
    st.dictionaries(st.integers(0, 39), st.floats(0.01, 100.0), max_size=40),
)
def test_shards_are_a_partition_and_balanced(count: int, parts: int, seconds: dict[int, float]) -> None:
    cells = [cell(number) for number in range(count)]
    known = {cell(number).id: took for number, took in seconds.items() if number < count}
    shards = [shard(cells, index, parts, known) for index in range(1, parts + 1)]
    assert sorted(c.id for part in shards for c in part) == sorted(c.id for c in cells)
    assert shards == [shard(cells, index, parts, known) for index in range(1, parts + 1)]
    middle = sorted(known.values())[len(known) // 2] if known else 1.0
    loads = [sum(known.get(c.id, middle) for c in part) for part in shards]
    longest = max([*known.values(), middle])
    assert max(loads) - min(loads) <= longest + 1e-9
