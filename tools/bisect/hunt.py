"""A bisect from its ends to its finding; installing and running are handed in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from tools.bisect.answer import Answer
from tools.bisect.errors import BisectError, TroubleError
from tools.bisect.search import Bracket, Same, bracket, next_release, same_goodness, same_verdict
from tools.bisect.state import State

Try = Callable[[str], Answer]
"""Tries one release, once."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """Where the verdict changed.

    Attributes:
        last: the newest release with the old verdict.
        first: the oldest release with the new one.
        skipped: releases between the two that cannot be tried: the change may have come with any of them.
        tried: every release that was tried, oldest first.
    """

    last: Answer
    first: Answer
    skipped: tuple[str, ...]
    tried: tuple[Answer, ...]


def hunt(releases: Sequence[str], state: State, attempt: Try, *, repeats: int, say: Callable[[str], None]) -> Finding:
    """Find the first release with the new verdict.

    The search assumes one change between the ends; where there are several, it finds one of them. The two releases that
    it ends with run `repeats` times each, and must come to the same each time.

    Args:
        releases: oldest first, from one end to the other.
        state: what is known so far; every answer goes there.

    Raises:
        BisectError: the ends are not as the question says.
        TroubleError: an end cannot be tried, or the cell is flaky.
    """
    question = state.question
    same: Same = same_verdict if question.any_change else same_goodness

    def known(release: str) -> Answer:
        if release not in state.answers:
            say(f"{question.package} {release}: trying")
            state.add(attempt(release))
        answer = state.answers[release]
        say(f"{question.package} {release}: {answer.told}")
        return answer

    _check_ends(known(question.good), known(question.bad), state, same)
    while True:
        found = bracket(releases, state.answers, same)
        release = next_release(releases, found)
        if release is not None:
            known(release)
            continue
        if all(_steady(answer, state, attempt, repeats, say) for answer in (found.last, found.first)):
            return _finding(releases, found, state)


def _check_ends(good: Answer, bad: Answer, state: State, same: Same) -> None:
    package = state.question.package
    for option, end in (("--good", good), ("--bad", bad)):
        if not end.usable:
            raise TroubleError(f"{option}: {package} {end.release} {end.told}; choose another release")
    if state.question.any_change:
        if same(good, bad):
            raise BisectError(
                f"{package} {good.release} and {bad.release} both come to {good.told}; expected different verdicts"
            )
        return
    if bad.good and not good.good:
        raise BisectError(
            f"--good: {package} {good.release} comes to {good.told}, and --bad {bad.release} to {bad.told}; "
            "exchange the two"
        )
    if not good.good:
        raise BisectError(
            f"--good: {package} {good.release} comes to {good.told}; expected PASS or UNSUPPORTED. "
            "To find a change from one failure to another, add --any-change"
        )
    if bad.good:
        raise BisectError(f"--bad: {package} {bad.release} comes to {bad.told}; expected a failure")


def _steady(answer: Answer, state: State, attempt: Try, repeats: int, say: Callable[[str], None]) -> bool:
    """Run a release until it has come to the same `repeats` times; always True.

    Raises:
        TroubleError: it came to something else.
    """
    while answer.times < repeats:
        again = attempt(answer.release)
        if again.verdict != answer.verdict:
            raise TroubleError(
                f"{state.question.cell} is flaky with {state.question.package} {answer.release}: "
                f"{answer.told}; then {again.told}"
            )
        answer = answer.model_copy(update={"times": answer.times + 1})
        state.add(answer)
        say(f"{state.question.package} {answer.release}: {answer.verdict} again, {answer.times} of {repeats}")
    return True


def _finding(releases: Sequence[str], found: Bracket, state: State) -> Finding:
    tried = tuple(state.answers[release] for release in releases if release in state.answers)
    return Finding(state.answers[found.last.release], state.answers[found.first.release], found.skipped, tried)
