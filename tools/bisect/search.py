"""The search itself, apart from installing and running: pure functions over what is known so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tools.bisect.answer import Answer

Same = Callable[[Answer, Answer], bool]
"""Whether two answers are on the same side of the change."""


def same_goodness(one: Answer, other: Answer) -> bool:
    """Both as they should be, or neither."""
    return one.good == other.good


def same_verdict(one: Answer, other: Answer) -> bool:
    """The very same verdict."""
    return one.verdict == other.verdict


@dataclasses.dataclass(frozen=True)
class Bracket:
    """The narrowest stretch of releases that is known to hold the change.

    Attributes:
        last: the newest release that is like the oldest one.
        first: the oldest release behind it that is not.
        untried: releases between them that nobody has tried, oldest first.
        skipped: releases between them that cannot be tried, oldest first.
    """

    last: Answer
    first: Answer
    untried: tuple[str, ...]
    skipped: tuple[str, ...]


def bracket(releases: Sequence[str], answers: Mapping[str, Answer], same: Same) -> Bracket:
    """What is known of the change.

    Args:
        releases: oldest first; the answers of the first and the last are known, usable, and on different sides.
        answers: by release.
    """
    old = answers[releases[0]]
    usable = [place for place, release in enumerate(releases) if release in answers and answers[release].usable]
    high = next(place for place in usable if not same(answers[releases[place]], old))
    low = max(place for place in usable if place < high)
    between = releases[low + 1 : high]
    return Bracket(
        last=answers[releases[low]],
        first=answers[releases[high]],
        untried=tuple(release for release in between if release not in answers),
        skipped=tuple(release for release in between if release in answers),
    )


def next_release(releases: Sequence[str], found: Bracket) -> str | None:
    """The untried release nearest to the middle of the bracket; None when there is nothing left to try."""
    middle = (releases.index(found.last.release) + releases.index(found.first.release)) / 2
    return min(found.untried, key=lambda release: abs(releases.index(release) - middle), default=None)
