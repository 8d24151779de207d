"""Since when a cell works: the line, the versions that make a series, and where reports show it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.model.record import Record
from conformance.model.verdict import Verdict
from reports.formats import html, markdown
from reports.merge import merge
from reports.pack import index
from reports.since import case_lines, line_of, series_of, since
from tests.reports import factory

CELL = "zero/train[stage=2]"


@pytest.mark.parametrize(
    ("works", "line"),
    [
        ("", "not tested with any version"),
        ("+", "works in the one version tested, 0.16"),
        ("-", "broken in the one version tested, 0.16"),
        ("+++", "works in every version tested, 0.16 to 0.18"),
        ("---", "broken in every version tested, 0.16 to 0.18"),
        ("-++", "works since 0.17"),
        ("++-", "broken since 0.18"),
        ("+-+", "broken since 0.17, fixed in 0.18"),
        ("-+-+", "works since 0.17, broken since 0.18, fixed in 0.19"),
    ],
)
def test_the_line(works: str, line: str) -> None:
    assert since([(f"0.{16 + place}", sign == "+") for place, sign in enumerate(works)]) == line


@given(st.lists(st.booleans(), min_size=2, max_size=12))
def test_the_line_names_each_change_and_nothing_else(works: list[bool]) -> None:
    line = since([(f"0.{place}", each) for place, each in enumerate(works)])
    changes = [f"0.{place}" for place in range(1, len(works)) if works[place] != works[place - 1]]
    named = [part.rpartition(" ")[2] for part in line.split(", ")] if changes else []
    assert named == changes
    assert (" every version tested" in line) == (not changes)


def on(
    stack: str, deepspeed: str, verdict: Verdict = Verdict.PASS, torch: str = "2.13.0+cpu", cell: str = CELL
) -> Record:
    packages = {"torch": torch, "deepspeed": deepspeed}
    where = factory.provenance(f"run-{stack}-{torch}", packages=packages)
    return factory.record(cell, verdict, stack=stack, provenance=where)


def lines(*records: Record) -> list[str]:
    matrix = merge(records)
    return [line_of(matrix, series, matrix.cells[0]) for series in series_of(matrix)]


class TestSeries:
    def test_versions_are_ordered_as_versions(self) -> None:
        assert lines(on("a", "0.9.5", Verdict.FAIL), on("b", "0.16.9"), on("c", "0.10.0", Verdict.XFAIL)) == [
            "works since 0.16.9"
        ]

    def test_one_version_tells_nothing(self) -> None:
        assert lines(on("a", "0.19.8"), on("b", "0.19.8", Verdict.FAIL)) == []

    def test_what_did_not_run_is_passed_over(self) -> None:
        assert lines(on("a", "0.16.9", Verdict.FAIL), on("b", "0.17.6", Verdict.NOT_RUN), on("c", "0.18.9")) == [
            "works since 0.18.9"
        ]
        assert lines(on("a", "0.16.9", Verdict.ERROR), on("b", "0.17.6")) == [""]

    def test_of_two_stacks_with_one_version_the_failure_counts(self) -> None:
        assert lines(on("a", "0.18.9"), on("b", "0.19.8"), on("c", "0.19.8", Verdict.CRASH)) == ["broken since 0.19.8"]

    def test_another_torch_is_another_series(self) -> None:
        matrix = merge([on(f"{v}-{t}", v, torch=t) for v in ("0.18.9", "0.19.8") for t in ("2.12.0", "2.13.0")])
        assert [series.label for series in series_of(matrix)] == ["torch 2.12.0", "torch 2.13.0"]


class TestShown:
    def matrix(self):
        steady = "zero/steady"
        return merge(
            [
                on("old", "0.18.9", Verdict.FAIL),
                on("new", "0.19.8"),
                on("old", "0.18.9", cell=steady),
                on("new", "0.19.8", cell=steady),
            ]
        )

    def test_by_case(self) -> None:
        found = {case.case: (case.lines, case.changed) for case in case_lines(self.matrix())}
        assert found == {
            "train": ((("works since 0.19.8", 1),), True),
            "steady": ((("works in every version tested, 0.18.9 to 0.19.8", 1),), False),
        }

    def test_in_markdown(self) -> None:
        text = markdown.render(self.matrix())
        assert "## By version of DeepSpeed\n\n1 case changed with a version, 1 did not.\n" in text
        assert "- `zero/train`: works since 0.19.8\n" in text

    def test_in_html(self) -> None:
        matrix = self.matrix()
        assert "works since 0.19.8" in html.render(matrix)
        number = next(str(place) for place, cell in enumerate(matrix.cells) if cell.id == CELL)
        assert index(matrix, [])["since"][number] == ["works since 0.19.8"]

    def test_a_report_of_one_version_does_not_speak_of_versions(self) -> None:
        matrix = merge([on("a", "0.19.8")])
        assert "By version" not in markdown.render(matrix)
        assert "By version" not in html.render(matrix)
