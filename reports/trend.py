"""How many cells passed in a column's runs, of those that all of them have, as a chart small enough for a line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from conformance.model.verdict import UNEXPECTED, Verdict
from reports.history import Past

WIDTH, HEIGHT, MARGIN = 180, 36, 4
"""Pixels."""


@dataclasses.dataclass(frozen=True)
class Point:
    """One run: where it is in the chart, and how many of the shared cells passed."""

    x: float
    y: float
    passed: int
    unexpected: bool


@dataclasses.dataclass(frozen=True)
class Trend:
    """What the template draws: the runs that tested something, oldest first, today's last; at least two."""

    points: tuple[Point, ...]
    shared: int

    @property
    def line(self) -> str:
        """The points as SVG writes them."""
        return " ".join(f"{point.x:g},{point.y:g}" for point in self.points)

    @property
    def words(self) -> str:
        """The chart in words."""
        now, before = self.points[-1].passed, self.points[-2].passed
        return f"{now:,} pass now, {before:,} before, of {self.shared:,} cells that all {len(self.points)} runs have"


def trend(today: Mapping[str, Verdict], past: Sequence[Past]) -> Trend | None:
    """The trend, or None where fewer than two runs have a cell in common.

    Args:
        today: the verdicts of today by cell id.
        past: earlier runs, oldest first.
    """
    runs = [run for run in (*(each.verdicts for each in past), today) if any(verdict.ran for verdict in run.values())]
    if len(runs) < 2:
        return None
    shared = set.intersection(*(set(run) for run in runs))
    if not shared:
        return None
    passed = [sum(run[cell] is Verdict.PASS for cell in shared) for run in runs]
    lowest = min(passed)
    reach = (len(shared) - lowest) or 1
    step = (WIDTH - 2 * MARGIN) / (len(runs) - 1)
    points = tuple(
        Point(
            x=round(MARGIN + number * step, 1),
            y=round(MARGIN + (HEIGHT - 2 * MARGIN) * (len(shared) - count) / reach, 1),
            passed=count,
            unexpected=any(run[cell] in UNEXPECTED for cell in shared),
        )
        for number, (count, run) in enumerate(zip(passed, runs, strict=True))
    )
    return Trend(points, len(shared))
