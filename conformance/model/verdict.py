"""The outcomes a cell can have, and how a check states those that are neither a pass nor a failure."""

from __future__ import annotations

import enum


class Verdict(enum.StrEnum):
    """What a cell came to; the value is what records, reports and the console show."""

    PASS = "PASS"
    FAIL = "FAIL"
    """A check did not hold."""
    ERROR = "ERROR"
    """The harness itself failed; says nothing about the thing under test."""
    TIMEOUT = "TIMEOUT"
    CRASH = "CRASH"
    """A rank died."""
    XFAIL = "XFAIL"
    """Failed as a known issue says."""
    XPASS = "XPASS"
    """A known issue no longer happens."""
    UNSUPPORTED = "UNSUPPORTED"
    """The contract says refuse, and it refused with the right error."""
    NOT_RUN = "NOT_RUN"
    """A probe says that this host lacks something."""
    NO_DATA = "NO_DATA"
    """In the matrix, never reported by this lane."""

    @property
    def ran(self) -> bool:
        """Whether ranks really ran, so that the verdict says something about the thing under test."""
        return self not in (Verdict.NOT_RUN, Verdict.NO_DATA, Verdict.ERROR)

    @property
    def expected(self) -> bool:
        """Whether a run holding this verdict may still be called good."""
        return self in (Verdict.PASS, Verdict.XFAIL, Verdict.UNSUPPORTED, Verdict.NOT_RUN)


UNEXPECTED = frozenset({Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.XPASS})
"""The verdicts that make a run exit 1."""

HOLDS = frozenset({Verdict.PASS, Verdict.UNSUPPORTED})
"""The verdicts of a cell that is as it should be."""

MAY_BE_KNOWN = frozenset({Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT})
"""The verdicts that a known issue may explain."""


def worse(before: Verdict, after: Verdict) -> bool:
    """Whether a cell got worse, as all reports mean it: from PASS or UNSUPPORTED to any other but NOT_RUN. Pure.

    A failure that a known issue explains is worse than a pass all the same.
    """
    return before in HOLDS and after not in HOLDS and after is not Verdict.NOT_RUN


class Unsupported(Exception):
    """Raised by a check: the contract says refuse, and it refused with the right error.

    Raised by an integration in every rank: it is documented to refuse this ground, with these words.
    """


class NotRun(Exception):
    """Raised where this host lacks what a cell needs.

    Args:
        lacks: what was not found, as a noun phrase ("2 GPUs (found 1)").
        remedy: what a user does about it ("run on a host with 2 GPUs").
    """

    def __init__(self, lacks: str, remedy: str) -> None:
        super().__init__(f"needs {lacks}; {remedy}")
        self.lacks = lacks
        self.remedy = remedy
