"""A lane's pass share over its runs, as a chart small enough to stand in a line of text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from reports.history import Past
from reports.matrix import Tally

WIDTH, HEIGHT, MARGIN = 180, 36, 4
"""Pixels."""


@dataclasses.dataclass(frozen=True)
class Point:
    """One run: where it is in the chart, and its share."""

    x: float
    y: float
    percent: int
    unexpected: bool


@dataclasses.dataclass(frozen=True)
class Trend:
    """What the template draws: the runs that tested something, oldest first, today's last; at least two."""

    points: tuple[Point, ...]
    lowest: int

    @property
    def line(self) -> str:
        """The points as SVG writes them."""
        return " ".join(f"{point.x:g},{point.y:g}" for point in self.points)

    @property
    def words(self) -> str:
        """The chart in words."""
        shares = [point.percent for point in self.points]
        return f"{shares[-1]} % now, {shares[-2]} % before; {min(shares)} to {max(shares)} % in {len(shares)} runs"


def trend(today: Tally, past: Sequence[Past]) -> Trend | None:
    """The trend, or None where fewer than two runs tested anything. The scale starts at the lowest share."""
    tallies = [tally for tally in (*(each.tally for each in past), today) if tally.percent is not None]
    if len(tallies) < 2:
        return None
    shares = [tally.percent or 0 for tally in tallies]
    lowest = min(shares)
    reach = (100 - lowest) or 1
    step = (WIDTH - 2 * MARGIN) / (len(shares) - 1)
    points = tuple(
        Point(
            x=round(MARGIN + number * step, 1),
            y=round(MARGIN + (HEIGHT - 2 * MARGIN) * (100 - share) / reach, 1),
            percent=share,
            unexpected=tally.unexpected > 0,
        )
        for number, (share, tally) in enumerate(zip(shares, tallies, strict=True))
    )
    return Trend(points, lowest)
