"""What a run's verdicts make of its exit code."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from conformance.model.verdict import UNEXPECTED, Verdict


class ExitCode(enum.IntEnum):
    """The exit codes of a lane run."""

    AS_EXPECTED = 0
    UNEXPECTED = 1
    """At least one FAIL, CRASH, TIMEOUT or XPASS."""
    USAGE = 2
    """The command line or a matrix file is wrong; no cell ran."""
    HARNESS = 3
    """No cell ran, or the harness failed in at least one."""


def exit_code(verdicts: Iterable[Verdict]) -> ExitCode:
    """The exit code for `verdicts`; none that ran is never a success, and a finding goes before a harness failure."""
    seen = set(verdicts)
    if seen & UNEXPECTED:
        return ExitCode.UNEXPECTED
    if Verdict.ERROR in seen or not any(verdict.ran for verdict in seen):
        return ExitCode.HARNESS
    return ExitCode.AS_EXPECTED
