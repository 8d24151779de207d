"""What came back from a rank set."""

from __future__ import annotations

import dataclasses
import enum

from conformance.model.setting import Observation


class RankStatus(enum.StrEnum):
    """How one rank ended."""

    RETURNED = "returned"
    RAISED = "raised"
    """The scenario raised; `error` says what."""
    DIED = "died"
    """The process ended before it reported, by a signal or with an exit code."""
    TIMED_OUT = "timed out"
    """Still running at the deadline."""
    UNREPORTABLE = "unreportable"
    """The scenario returned something that is not plain data; `error` says what."""
    STOPPED = "stopped"
    """Ended by the harness since another rank had died and this one did not end by itself in time."""


@dataclasses.dataclass(frozen=True)
class RankError:
    """An exception in a rank: its type's name, its text, and the traceback as text."""

    type: str
    message: str
    traceback: str


@dataclasses.dataclass(frozen=True)
class RankReport:
    """One rank's part of an outcome.

    Attributes:
        rank: its number in the world.
        status: how it ended.
        observation: what the scenario returned; only with RETURNED.
        error: with RAISED and UNREPORTABLE.
        exit_code: the process's exit code, negative for a signal (-9 is SIGKILL); None while alive or unknown.
        seconds: time spent in the scenario; 0.0 if it never ended.
        log: what the rank wrote to stdout and stderr, invalid UTF-8 replaced, the middle cut when long.
        stacks: every thread's stack at the deadline; empty otherwise.
    """

    rank: int
    status: RankStatus
    observation: Observation | None = None
    error: RankError | None = None
    exit_code: int | None = None
    seconds: float = 0.0
    log: str = ""
    stacks: str = ""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What all ranks of one job came to.

    Attributes:
        reports: one per rank, in rank order.
        seconds: wall time of the job as the harness saw it, starting ranks included.
        waited: the part of it in which what is started once for all jobs, the fork server, was not ready yet.
        mode: `forked`, `cold`, `prewarmed` (started ahead, single use) or `reused`.
        harness_error: why the harness itself could not run the job; the reports then say nothing.
    """

    reports: tuple[RankReport, ...]
    seconds: float
    mode: str
    harness_error: str | None = None
    waited: float = 0.0
