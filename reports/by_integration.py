"""What each integration handles, refuses and gets wrong, over all lanes and stacks that drove it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Final

from conformance.model.verdict import Verdict
from reports import places
from reports.groups import NOT_TESTED, Group, groups
from reports.known import Issue, known_issues
from reports.matrix import Column, Matrix, Tally

WRONG: Final = (Verdict.CRASH, Verdict.TIMEOUT, Verdict.FAIL, Verdict.XFAIL)
"""The verdicts of what is broken, whether somebody knows it or not; the worst first."""

MAKERS: Final = {"fabric": "lightning", "lightning-own": "lightning"}
"""Whose an integration is, where its name does not say."""
PACKAGES: Final = dict.fromkeys(("lightning", "fabric", "lightning-own"), ("pytorch-lightning",))
"""What an integration is installed as, where its name does not say."""


@dataclasses.dataclass(frozen=True)
class HandledSuite:
    """What of one suite passes.

    Attributes:
        tally: its results.
        whole: the cases of which all that ran and applies passes, at least once.
        part: the cases of which only some does, each with how much.
    """

    suite: str
    tally: Tally
    whole: tuple[str, ...]
    part: tuple[tuple[str, Tally], ...]


@dataclasses.dataclass(frozen=True)
class IntegrationView:
    """One integration.

    Attributes:
        columns: the matrix's columns that drove it.
        tally: all its results; a cell counts once a column.
        handles: the suites of which something passes.
        refuses, wrong, untested: what was refused as the rules say, is broken, and did not run.
        issues: the known issues behind what is broken, each with how many results; its own first, then the most.
    """

    name: str
    columns: tuple[Column, ...]
    tally: Tally
    handles: tuple[HandledSuite, ...]
    refuses: tuple[Group, ...]
    wrong: tuple[Group, ...]
    untested: tuple[Group, ...]
    issues: tuple[tuple[Issue, int], ...]

    @property
    def title(self) -> str:
        """Its name as its users write it."""
        return places.integration(self.columns[0])

    @property
    def faults(self) -> dict[str, int]:
        """How many of the broken results are whose fault, the most first; those that nothing explains left out."""
        counts: Counter[str] = Counter()
        for issue, count in self.issues:
            counts[issue.fault] += count
        return dict(counts.most_common())

    @property
    def unexplained(self) -> int:
        """How many broken results no known issue explains."""
        return self.wrong_count - sum(self.faults.values())

    @property
    def refused(self) -> list[tuple[str, int]]:
        """Why something was refused, and how often; the most first."""
        counts: Counter[str] = Counter()
        for group in self.refuses:
            counts[group.reason] += group.count
        return counts.most_common()

    @property
    def wrong_count(self) -> int:
        """How many results are broken."""
        return sum(self.tally[verdict] for verdict in WRONG)

    @property
    def versions(self) -> dict[str, tuple[str, ...]]:
        """The versions of DeepSpeed, and of the integration's package, that were driven."""
        found: dict[str, dict[str, None]] = {}
        for column in self.columns:
            for name in (self.name, *PACKAGES.get(self.name, ()), "deepspeed"):
                if name in column.latest.packages:
                    found.setdefault(name, {})[column.latest.packages[name]] = None
        return {name: tuple(those) for name, those in found.items()}


def by_integration(matrix: Matrix) -> list[IntegrationView]:
    """A view an integration, in the order of the matrix's columns."""
    names = dict.fromkeys(column.key.integration for column in matrix.columns)
    return [_view(name, dataclasses.replace(matrix, columns=_columns(matrix, name))) for name in names]


def _columns(matrix: Matrix, name: str) -> tuple[Column, ...]:
    return tuple(column for column in matrix.columns if column.key.integration == name)


def _view(name: str, matrix: Matrix) -> IntegrationView:
    """The view of an integration, from a matrix of its columns alone."""
    by_case: dict[tuple[str, str], Counter[Verdict]] = {}
    for cell in matrix.cells:
        for column in matrix.columns:
            if slot := matrix.slot(cell, column):
                by_case.setdefault((cell.suite, cell.case), Counter())[slot.verdict] += 1
    suites = (_handled(suite, by_case) for suite in dict.fromkeys(suite for suite, _ in by_case))
    return IntegrationView(
        name=name,
        columns=matrix.columns,
        tally=Tally(sum(by_case.values(), Counter())),
        handles=tuple(suite for suite in suites if suite.tally[Verdict.PASS]),
        refuses=tuple(groups(matrix, [Verdict.UNSUPPORTED])),
        wrong=tuple(groups(matrix, WRONG)),
        untested=tuple(groups(matrix, NOT_TESTED)),
        issues=tuple(
            sorted(((issue, issue.count) for issue in known_issues(matrix)), key=lambda told: _rank(name, *told))
        ),
    )


def _rank(name: str, issue: Issue, count: int) -> tuple[bool, int, str]:
    """Its maintainer looks for what is his first."""
    return (issue.fault != MAKERS.get(name, name), -count, issue.id)


def _handled(suite: str, by_case: dict[tuple[str, str], Counter[Verdict]]) -> HandledSuite:
    cases = {case: Tally(counts) for (of, case), counts in by_case.items() if of == suite}
    passing = {case: tally for case, tally in cases.items() if tally[Verdict.PASS]}
    return HandledSuite(
        suite=suite,
        tally=Tally(sum((Counter(tally.counts) for tally in cases.values()), Counter())),
        whole=tuple(case for case, tally in passing.items() if tally[Verdict.PASS] == tally.tested),
        part=tuple((case, tally) for case, tally in passing.items() if tally[Verdict.PASS] < tally.tested),
    )
