"""What newly fails and newly works from one published run of a series to the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final

from conformance.model.verdict import Verdict
from reports.past_runs import PastRun

GOOD: Final = frozenset({Verdict.PASS, Verdict.UNSUPPORTED})
SAYS_NOTHING: Final = frozenset({Verdict.NOT_RUN, Verdict.NO_DATA})


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
        fails: cells that were as they should be, and are not any more.
        works: cells that were not, and are now.
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

    Cells that one of two runs did not try, or could not try, are not compared.
    """
    found = []
    ordered = sorted(runs, key=lambda run: (run.series, run.started))
    for _, some in groupby(ordered, key=lambda run: run.series):
        for before, after in pairwise(some):
            changes = _changes(before.by_cell, after.by_cell)
            fails = tuple(change for change in changes if change.before in GOOD)
            works = tuple(change for change in changes if change.after in GOOD)
            if changes:
                found.append(News(before, after, fails, works))
    return sorted(found, key=lambda each: each.after.started, reverse=True)


def _changes(before: Mapping[str, Verdict], after: Mapping[str, Verdict]) -> Sequence[Change]:
    return [
        Change(cell, old, new)
        for cell, new in sorted(after.items())
        if (old := before.get(cell)) is not None
        and not {old, new} & SAYS_NOTHING
        and (old in GOOD) is not (new in GOOD)
    ]
