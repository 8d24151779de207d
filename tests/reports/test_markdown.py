"""Markdown: what a job summary shows, and that text from records stays text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from conformance.model.verdict import Verdict
from reports.formats import markdown
from reports.formats.markdown import code, escape
from reports.matrix import Problem
from reports.merge import merge
from tests.reports import factory

TEXT = markdown.render(
    merge(factory.lanes(), factory.headers(), problems=[Problem("old.jsonl, line 3", "not JSON: <b>")])
)


def test_the_first_lines_say_what_is_partial_and_what_was_left_out() -> None:
    top = TEXT[: TEXT.index("## Can I use it?")]
    assert "**Partial: Windows · mpiexec · MPI transport · CPU, under Wine.**" in top
    assert "114 of 116 cells reported" in top
    assert "old.jsonl, line 3: not JSON: &lt;b&gt;" in top


def test_every_lane_has_its_share_and_says_whether_it_is_wine() -> None:
    rows = [line for line in TEXT.splitlines() if re.match(r"\| \*\*(Linux|Windows)", line)]
    assert len(rows) == 5
    assert [("Wine 8.0" in row) for row in rows] == ["windows_" in row for row in rows]
    assert [("native" in row) for row in rows] == ["linux_" in row for row in rows]
    assert "| 72 of 80 | CPU |" in TEXT
    assert "2 × NVIDIA H100 80GB" in TEXT


def test_what_needs_a_look_comes_with_its_repeat_command() -> None:
    section = TEXT[TEXT.index("## Needs a look") : TEXT.index("## Known issues")]
    for words in ("CRASH", "TIMEOUT", "FAIL", "ERROR", "rank 1 died: SIGSEGV", "and 5 more", "repeat: `nox -s"):
        assert words in section


def test_known_issues_have_their_link_and_missing_cells_their_remedy() -> None:
    assert "<https://github.com/deepspeedai/DeepSpeed/issues/1>" in TEXT
    assert "remedy: run the NVMe cells on a Linux lane" in TEXT


def test_all_rows_of_a_table_are_as_wide_as_its_head() -> None:
    for block in TEXT.split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) <= 1


def test_nothing_ran_is_said_and_is_no_success() -> None:
    assert "**Nothing ran.**" in markdown.render(merge([]))
    text = markdown.render(merge([], [factory.header(["zero/train[stage=1]"])]))
    assert "**nothing ran**" in text
    assert "100 %" not in text


def test_duplicates_that_disagree_are_told() -> None:
    text = markdown.render(merge([factory.record(), factory.record(verdict=Verdict.FAIL)]))
    assert (
        "**Records disagree; the worst counts:** `zero/train[stage=2,dtype=bf16]` on Linux · CPU (FAIL, PASS)" in text
    )


def test_thousands_of_failures_stay_readable() -> None:
    records = [
        factory.record(f"zero/train[seed={number}]", Verdict.FAIL, reason=f"loss {number}", log="x" * 1000)
        for number in range(3000)
    ]
    text = markdown.render(merge(records))
    assert "and 2,950 more in the HTML report" in text
    assert len(text) < 100_000


@given(st.text())
def test_text_from_records_is_one_line_without_markup(text: str) -> None:
    line = escape(text)
    assert "\n" not in line
    assert "<" not in line
    assert ">" not in line
    assert not re.search(r"(?<!\\)(?:\\\\)*[|`*_\[\]]", line)


@given(st.text(min_size=1).filter(str.strip))
def test_a_code_span_closes_where_it_should(text: str) -> None:
    span = code(text)
    fence = re.match("`+", span)
    assert fence is not None
    assert span.endswith(fence[0])
    inner = span[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in re.findall("`+", inner)
    assert "\n" not in span


def test_names_in_logs_notify_nobody() -> None:
    assert "@someone" not in escape("ask @someone about #12")
    assert "#12" not in escape("ask @someone about #12")
