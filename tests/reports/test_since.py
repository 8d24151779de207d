"""Since when a cell works: the line, the versions that make a series, and where reports show it."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.model.record import KnownIssueText, Record
from conformance.model.verdict import Verdict, worse
from reports.formats import html, markdown
from reports.matrix import Matrix
from reports.merge import merge
from reports.pack import cells
from reports.since import line_of, series_of, since, steps
from tests.reports import factory

CELL = "zero/train[stage=2]"


@pytest.mark.parametrize(
    ("works", "line"),
    [
        ("", "not tested with any release"),
        ("+", "works with 0.16"),
        ("+++", "works with 0.16, 0.17 and 0.18"),
        ("--", "fails with 0.16 and 0.17"),
        ("-++", "fails with 0.16, works with 0.17 and 0.18"),
        ("+-+", "works with 0.16, fails with 0.17, works with 0.18"),
    ],
)
def test_the_line(works: str, line: str) -> None:
    assert since([(f"0.{16 + place}", sign == "+") for place, sign in enumerate(works)]) == line


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_the_line_names_the_releases_that_were_tried_and_no_other(works: list[bool]) -> None:
    line = since([(f"0.{place}", each) for place, each in enumerate(works)])
    assert re.findall(r"0\.\d+", line) == [f"0.{place}" for place in range(len(works))]
    assert line.count(" with ") == 1 + sum(old is not new for old, new in itertools.pairwise(works))


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
            "fails with 0.9.5 and 0.10.0, works with 0.16.9"
        ]

    def test_one_version_tells_nothing(self) -> None:
        assert lines(on("a", "0.19.8"), on("b", "0.19.8", Verdict.FAIL)) == []

    def test_what_did_not_run_is_passed_over(self) -> None:
        assert lines(on("a", "0.16.9", Verdict.FAIL), on("b", "0.17.6", Verdict.NOT_RUN), on("c", "0.18.9")) == [
            "fails with 0.16.9, works with 0.18.9"
        ]
        assert lines(on("a", "0.16.9", Verdict.ERROR), on("b", "0.17.6")) == [""]

    def test_of_two_stacks_with_one_version_the_failure_counts(self) -> None:
        assert lines(on("a", "0.18.9"), on("b", "0.19.8"), on("c", "0.19.8", Verdict.CRASH)) == [
            "works with 0.18.9, fails with 0.19.8"
        ]

    def test_another_torch_is_another_series(self) -> None:
        matrix = merge([on(f"{v}-{t}", v, torch=t) for v in ("0.18.9", "0.19.8") for t in ("2.12.0", "2.13.0")])
        assert [series.label for series in series_of(matrix)] == ["torch 2.12.0", "torch 2.13.0"]

    @pytest.mark.parametrize(("before", "after"), list(itertools.product(Verdict, repeat=2)))
    def test_it_calls_worse_only_what_diff_calls_worse(self, before: Verdict, after: Verdict) -> None:
        found = steps(merge([on("a", "0.18.9", before), on("b", "0.19.8", after)]))
        if any(step.worse for step in found.steps):
            assert worse(before, after)
        elif worse(before, after):
            # What says nothing of a release is no step; neither does an entry that contradicts its cell.
            assert after in (Verdict.NO_DATA, Verdict.ERROR, Verdict.XPASS)


class TestShown:
    def matrix(self) -> Matrix:
        issue = KnownIssueText(id="forgets", title="Forgets the last batch", reference="https://example.org/1")
        failing = [
            on("old", "0.18.9", Verdict.XFAIL, cell=f"zero/train[stage={stage}]").model_copy(
                update={"known_issue": issue}
            )
            for stage in (2, 3)
        ]
        good = [on("new", "0.19.8", cell=f"zero/train[stage={stage}]") for stage in (2, 3)]
        steady = [on(stack, version, cell="zero/steady") for stack, version in (("old", "0.18.9"), ("new", "0.19.8"))]
        return merge([*failing, *good, *steady])

    def test_one_cause_is_one_step(self) -> None:
        found = steps(self.matrix())
        assert (found.compared, found.steady, found.releases) == (3, 1, ("0.18.9", "0.19.8"))
        (step,) = found.steps
        assert (step.before, step.after, step.worse, len(step.cells)) == ("0.18.9", "0.19.8", False, 2)
        assert step.issue is not None
        assert step.issue.id == "forgets"

    def test_in_markdown(self) -> None:
        text = markdown.render(self.matrix())
        assert "## By release of DeepSpeed\n\nTried: 0.18.9, 0.19.8. 1 cell of 3 came to the same.\n" in text
        assert "- 0.18.9 → 0.19.8: 2 cells better: Forgets the last batch (forgets); `zero/train`\n" in text

    def test_in_html(self) -> None:
        matrix = self.matrix()
        assert "Forgets the last batch" in html.render(matrix)["index.html"]
        number = next(str(place) for place, cell in enumerate(matrix.cells) if cell.id == CELL)
        assert cells(matrix, [])["since"][number] == ["fails with 0.18.9, works with 0.19.8"]

    def test_a_report_of_one_version_does_not_speak_of_versions(self) -> None:
        matrix = merge([on("a", "0.19.8")])
        assert "By release" not in markdown.render(matrix)
        assert "By release" not in html.render(matrix)["index.html"]
