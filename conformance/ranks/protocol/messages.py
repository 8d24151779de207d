"""What the harness and its processes say to each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from conformance.model.setting import Setting
from conformance.ranks.outcome import RankError
from conformance.ranks.protocol.invitation import Invitation


@dataclasses.dataclass(frozen=True)
class Hello:
    """A rank's first words: its process id, and its rank where mpiexec has told it."""

    pid: int
    rank: int | None = None


@dataclasses.dataclass(frozen=True)
class Ready:
    """An order may come."""


@dataclasses.dataclass(frozen=True)
class Order:
    """One rank's part of a job.

    Attributes:
        scenario: `module:function`.
        setting: with `rank` filled in where the launcher plans it.
        environment: variables to set, or with None to unset, over those that the process started with.
        roots: folders to import from, ahead of the rank's own.
        log: the file that stdout and stderr go to.
        stacks: the file for stack dumps.
        deadline: seconds until stacks are dumped.
        again: whether the process shall clean up afterwards and wait for another order.
    """

    scenario: str
    setting: Setting
    environment: dict[str, str | None]
    roots: tuple[str, ...]
    log: Path
    stacks: Path
    deadline: float
    again: bool = False


@dataclasses.dataclass(frozen=True)
class Returned:
    """The scenario came to its end; `observation` is pickled plain data, read only when asked for."""

    observation: bytes
    seconds: float


@dataclasses.dataclass(frozen=True)
class Raised:
    """The scenario raised, or (`reportable` false) returned something that is not plain data."""

    error: RankError
    seconds: float
    reportable: bool = True


@dataclasses.dataclass(frozen=True)
class Tidy:
    """To a rank that has returned from an order with `again`: let go of its peers, and clean up."""


@dataclasses.dataclass(frozen=True)
class Clean:
    """The answer: the process is as it was before the order, but for what `left` names."""

    left: str = ""


@dataclasses.dataclass(frozen=True)
class Leave:
    """To a rank: end now; `together` with all its peers, none of which has failed."""

    together: bool = False


@dataclasses.dataclass(frozen=True)
class Fork:
    """To a agent: fork a rank that accepts `invitation`."""

    key: int
    invitation: Invitation


@dataclasses.dataclass(frozen=True)
class Spawn:
    """To a agent: start a program, its output going to `log`."""

    key: int
    command: tuple[str, ...]
    environment: dict[str, str]
    folder: Path
    log: Path


@dataclasses.dataclass(frozen=True)
class Stop:
    """To a agent: wait `patience` seconds for these to end, then kill them, and whatever they left behind."""

    keys: tuple[int, ...]
    patience: float


@dataclasses.dataclass(frozen=True)
class Started:
    """From a agent: this one runs, with this process id, in a session of its own."""

    key: int
    pid: int


@dataclasses.dataclass(frozen=True)
class Exited:
    """From a agent: this one ended, with this exit code (negative for a signal); `killed` if by the agent."""

    key: int
    exit_code: int
    killed: bool = False


@dataclasses.dataclass(frozen=True)
class NotStarted:
    """From a agent: this one could not be started."""

    key: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Stopped:
    """From a agent: a Stop is done; nothing is left but what other sets run."""


@dataclasses.dataclass(frozen=True)
class AgentReady:
    """From a agent: its imports are done; `problem` says why it cannot serve, or is empty."""

    problem: str = ""
