"""The plain answers of the first screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.matrix import load_matrix
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
        ([P, U], Answer.WORKS),
        ([P, N, D], Answer.PARTLY),
        ([P, E], Answer.PARTLY),
        ([P, F], Answer.CATCH),
        ([P, K], Answer.CATCH),
        ([P, X], Answer.CATCH),
        ([P, F, N], Answer.CATCH),
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
def test_works_is_said_only_where_all_that_was_asked_passed(verdicts: list[Verdict]) -> None:
    found = answered(verdicts)
    if found.answer is Answer.WORKS:
        assert {verdict for verdict in verdicts if verdict is not U} == {P}
        assert found.tally[P] == found.asked
    if found.answer is Answer.PARTLY:
        assert found.tally[P] == found.tally.tested < found.asked
    if found.answer is Answer.UNTESTED:
        assert set(verdicts) <= UNTESTED


def test_a_shorter_run_does_not_pass_for_a_whole_one() -> None:
    ids = [f"zero/train[stage=1,seed={number}]" for number in range(4)]
    whole = [factory.record(cell, stack="pinned") for cell in ids]
    short = [factory.record(ids[0], stack="old")]
    headers = [factory.header(ids, stack="pinned"), factory.header(ids[:1], stack="old")]
    matrix = merge([*whole, *short], headers)
    told = {column.key.stack: answer(matrix, column, matrix.cells) for column in matrix.columns}
    assert (told["pinned"].answer, told["pinned"].share) == (Answer.WORKS, "4 of 4")
    assert (told["old"].answer, told["old"].share) == (Answer.PARTLY, "1 of 4")
    assert told["old"].detail == "1 of 4 pass; 3 not asked by this shorter run"


def test_what_a_lane_leaves_out_for_good_is_not_untested() -> None:
    ids = [f"zero/train[stage=1,seed={number}]" for number in range(2)]
    headers = [
        factory.header(ids, stack="a"),
        factory.header(ids[:1], stack="b", excluded={ids[1]: "no such thing here"}),
    ]
    records = [*(factory.record(cell, stack="a") for cell in ids), factory.record(ids[0], stack="b")]
    matrix = merge(records, headers)
    assert {answer(matrix, column, matrix.cells).answer for column in matrix.columns} == {Answer.WORKS}


def test_the_catch_names_the_axis_value_that_makes_the_difference() -> None:
    ids = [f"zero/train[dtype={dtype},clip={clip}]" for dtype in ("fp32", "fp16") for clip in (0, 1)]
    assert answered([P, P, U, U], ids).refused == "fp16 refused"
    assert answered([P, F, P, F], ids).catch == "clip 1 fails"
    assert answered([P, P, P, K], ids).catch == "1 fails (known)"


def test_what_was_not_tested_says_why() -> None:
    record = factory.record("zero/train[stage=1,seed=0]")
    lacking = factory.record("zero/train[stage=1,seed=1]", N, reason="needs DeepSpeed's op cpu_adam")
    matrix = merge([record, lacking])
    found = answer(matrix, matrix.columns[0], matrix.cells)
    assert found.detail == "1 of 2 pass; 1 not tested: needs DeepSpeed's op cpu_adam"


def test_headlines_choose_by_suite_case_axes_and_words() -> None:
    cell = parse_cell_id("offload/optimizer_cpu[stage=3,device=nvme]")
    assert CellChoice(suite="offload").holds(cell)
    assert CellChoice(suite="offload", case="opt*", axes={"stage": 3}).holds(cell)
    assert CellChoice(suite="offload", case=["resume", "opt*"]).holds(cell)
    assert CellChoice(suite="offload", says=("cpu",)).holds(cell)
    assert CellChoice(suite="offload", says=("disk", "nvme")).holds(cell)
    assert not CellChoice(suite="offload", says=("cpu",), lacks=("nvme",)).holds(cell)
    assert not CellChoice(suite="offload", axes={"stage": 2}).holds(cell)
    assert not CellChoice(suite="offload", axes={"world": 2}).holds(cell)
    assert not CellChoice(suite="offload", says=("disk",)).holds(cell)
    assert not CellChoice(suite="offload", case="param*").holds(cell)
    assert not CellChoice(suite="zero").holds(cell)


def test_the_headlines_ask_about_stages_resume_and_offload() -> None:
    headlines = [headline for group in headline_groups() for headline in group.headlines]
    for words in ("ZeRO 1", "ZeRO 2", "ZeRO 3", "Resume", "CPU", "NVMe", "GPU"):
        assert any(words in headline.title for headline in headlines)
    names = [headline.name for headline in headlines]
    assert len(names) == len(set(names))


def test_each_headline_asks_one_thing_and_something() -> None:
    cells = [parse_cell_id(cell.id) for cell in load_matrix().cells]
    for headline in (headline for group in headline_groups() for headline in group.headlines):
        chosen = [cell for cell in cells if any(choice.holds(cell) for choice in headline.cells)]
        assert chosen, headline.name
        stages = {cell.axes.get("stage") for cell in chosen}
        assert " ZeRO " not in f" {headline.title}" or len(stages) == 1
        if "CPU offload" in headline.title:
            assert not [cell.id for cell in chosen if "nvme" in cell.axes.values()]


def test_offload_between_a_cpu_and_itself_says_so() -> None:
    records = [
        factory.record("offload/train[stage=3,optimizer=cpu]", lane=lane) for lane in ("linux_gloo", "linux_nccl")
    ]
    gpu = records[1].model_copy(update={"transport": "nccl", "provenance": factory.provenance(host=factory.GPU)})
    matrix = merge([records[0], gpu])
    (headline,) = [h for g in headline_groups() for h in g.headlines if h.name == "offload-cpu-3"]
    assert [headline.caveat(column) for column in matrix.columns] == ["CPU to CPU", ""]


def test_every_answer_is_explained() -> None:
    assert set(MEANING) == set(Answer)
