"""The plain answers of the first screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.model.verdict import Verdict
from reports.answers import MEANING, Answer, CellChoice, answer, headline_groups
from reports.matrix import UNTESTED
from reports.merge import merge, parse_cell_id
from tests.reports import factory

P, F, K, X, U, N, E, D = (
    Verdict.PASS,
    Verdict.FAIL,
    Verdict.XFAIL,
    Verdict.XPASS,
    Verdict.UNSUPPORTED,
    Verdict.NOT_RUN,
    Verdict.ERROR,
    Verdict.NO_DATA,
)


def answered(verdicts: list[Verdict], cells: list[str] | None = None):
    ids = cells or [f"zero/train[stage=1,seed={number}]" for number in range(len(verdicts))]
    matrix = merge([factory.record(cell, verdict) for cell, verdict in zip(ids, verdicts, strict=True)])
    return answer(matrix, matrix.columns[0], matrix.cells)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([P, P], Answer.WORKS),
        ([P, N, D], Answer.WORKS),
        ([P, F], Answer.CATCH),
        ([P, K], Answer.CATCH),
        ([P, U], Answer.CATCH),
        ([P, X], Answer.CATCH),
        ([P, F, F], Answer.BROKEN),
        ([F], Answer.BROKEN),
        ([K], Answer.BROKEN),
        ([K, U], Answer.BROKEN),
        ([Verdict.CRASH], Answer.BROKEN),
        ([Verdict.TIMEOUT], Answer.BROKEN),
        ([U, U], Answer.REFUSED),
        ([U, N], Answer.REFUSED),
        ([N, E, D], Answer.UNTESTED),
    ],
)
def test_verdicts_come_to_an_answer(verdicts: list[Verdict], expected: Answer) -> None:
    assert answered(verdicts).answer is expected


def test_a_column_without_any_such_cell_has_not_tested_it() -> None:
    matrix = merge([factory.record()])
    assert answer(matrix, matrix.columns[0], []).answer is Answer.UNTESTED


@given(st.lists(st.sampled_from(Verdict), min_size=1, max_size=8))
def test_works_is_said_only_of_what_ran_and_passed(verdicts: list[Verdict]) -> None:
    found = answered(verdicts)
    if found.answer is Answer.WORKS:
        assert {verdict for verdict in verdicts if verdict not in UNTESTED} == {Verdict.PASS}
    if found.answer is Answer.UNTESTED:
        assert set(verdicts) <= UNTESTED


def test_the_catch_names_the_axis_value_that_makes_the_difference() -> None:
    ids = [f"zero/train[dtype={dtype},clip={clip}]" for dtype in ("fp32", "fp16") for clip in (0, 1)]
    assert answered([P, P, U, U], ids).catch == "fp16 refused"
    assert answered([P, F, P, F], ids).catch == "clip 1 failing"
    assert answered([P, F, P, P], ids).catch == "1 failing"
    assert answered([P, F, U, U], ids).catch == "1 failing; fp16 refused"
    assert answered([P, P, K, K], ids).catch == "fp16: known issue"
    assert answered([K, P, P, K], ids).catch == "2 known issues"
    assert answered([X, P, P, P], ids).catch == "1 known issue gone"


def test_the_detail_says_what_was_not_tested() -> None:
    ids = ["initialize/args", "initialize/model", "initialize/mpu"]
    assert answered([P, F, N], ids).detail == "1 of 2 pass; 1 failing; 1 not tested"


def test_headlines_choose_by_suite_case_axes_and_words() -> None:
    cell = parse_cell_id("offload/optimizer_cpu[stage=3,device=nvme]")
    assert CellChoice(suite="offload").holds(cell)
    assert CellChoice(suite="offload", case="opt*", axes={"stage": 3}).holds(cell)
    assert CellChoice(suite="offload", says=("cpu",)).holds(cell)
    assert CellChoice(suite="offload", says=("disk", "nvme")).holds(cell)
    assert not CellChoice(suite="offload", axes={"stage": 2}).holds(cell)
    assert not CellChoice(suite="offload", axes={"world": 2}).holds(cell)
    assert not CellChoice(suite="offload", says=("disk",)).holds(cell)
    assert not CellChoice(suite="offload", case="param*").holds(cell)
    assert not CellChoice(suite="zero").holds(cell)


def test_the_headlines_ask_about_stages_resume_and_offload() -> None:
    titles = [headline.title for group in headline_groups() for headline in group.headlines]
    for words in ("ZeRO 1", "ZeRO 2", "ZeRO 3", "Resume", "CPU", "NVMe"):
        assert any(words in title for title in titles)
    names = [headline.name for group in headline_groups() for headline in group.headlines]
    assert len(names) == len(set(names))


def test_every_answer_is_explained() -> None:
    assert set(MEANING) == set(Answer)
