"""What newly fails and newly works from one published run of a series to the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise

from conformance.model.verdict import HOLDS, Verdict, worse
from reports.past_runs import PastRun


@dataclasses.dataclass(frozen=True)
class Change:
    """One cell of which two runs say different things."""

    cell: str
    before: Verdict
    after: Verdict


@dataclasses.dataclass(frozen=True)
class News:
    """What changed with one run.

    Attributes:
        before, after: the two runs.
        fails: cells that got worse, see `conformance.model.verdict.worse`.
        works: cells that ran and were not as they should be, and are now.
    """

    before: PastRun
    after: PastRun
    fails: tuple[Change, ...]
    works: tuple[Change, ...]

    @property
    def releases(self) -> Mapping[str, tuple[str, str]]:
        """Packages with another version than before."""
        old, new = self.before.packages, self.after.packages
        return {name: (old[name], new[name]) for name in sorted(old.keys() & new.keys()) if old[name] != new[name]}


def news(runs: Iterable[PastRun]) -> Sequence[News]:
    """What changed between neighbouring runs of each series, the newest first; runs that changed nothing left out.

    Cells that only one of two runs had are not compared.
    """
    found = []
    ordered = sorted(runs, key=lambda run: (run.series, run.started))
    for _, some in groupby(ordered, key=lambda run: run.series):
        for before, after in pairwise(some):
            both = _both(before.by_cell, after.by_cell)
            fails = tuple(change for change in both if worse(change.before, change.after))
            works = tuple(change for change in both if _better(change))
            if fails or works:
                found.append(News(before, after, fails, works))
    return sorted(found, key=lambda each: each.after.started, reverse=True)


def _both(before: Mapping[str, Verdict], after: Mapping[str, Verdict]) -> Sequence[Change]:
    return [Change(cell, before[cell], after[cell]) for cell in sorted(before.keys() & after.keys())]


def _better(change: Change) -> bool:
    return change.before.ran and change.before not in HOLDS and change.after in HOLDS
