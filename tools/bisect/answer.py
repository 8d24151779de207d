"""What a cell came to with one release."""

from __future__ import annotations

from typing import Final

from conformance.model.record import Frozen
from conformance.model.verdict import Verdict

GOOD: Final = frozenset({Verdict.PASS, Verdict.UNSUPPORTED})
"""The verdicts of a cell that is as it should be."""


class Answer(Frozen):
    """What one release came to.

    Attributes:
        release: the version.
        verdict: what the cell came to, known issues left aside; None for a release that cannot be tried.
        reason: why that verdict, or why the release cannot be tried.
        times: how often the cell ran and came to this.
    """

    release: str
    verdict: Verdict | None
    reason: str = ""
    times: int = 1

    @property
    def usable(self) -> bool:
        """Whether the release says anything about the cell."""
        return self.verdict is not None

    @property
    def good(self) -> bool:
        """Whether the cell is as it should be."""
        return self.verdict in GOOD

    @property
    def told(self) -> str:
        """In one line."""
        head = "cannot be tried" if self.verdict is None else self.verdict.value
        reason = " ".join(self.reason.split())
        return f"{head}: {reason}" if reason else head
