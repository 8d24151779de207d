"""What the harness and its processes say to each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from conformance.ranks.outcome import RankError
from conformance.setting import Setting


@dataclasses.dataclass(frozen=True)
class Hello:
    """A rank's first words: its process id, and its rank where mpiexec has told it."""

    pid: int
    rank: int | None = None


@dataclasses.dataclass(frozen=True)
class Ready:
    """Imports are done, an order may come."""


@dataclasses.dataclass(frozen=True)
class Order:
    """One rank's part of a job.

    Attributes:
        scenario: `module:function`.
        setting: with `rank` filled in where the launcher plans it.
        environment: all variables of the rank.
        roots: folders to import from, ahead of the rank's own.
        log: the file that stdout and stderr go to.
        stacks: the file for stack dumps.
        deadline: seconds until stacks are dumped.
        again: whether the process shall clean up afterwards and wait for another order.
    """

    scenario: str
    setting: Setting
    environment: dict[str, str]
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
class Clean:
    """After an order with `again`: whether the process is as it was before; `left` says what is not."""

    left: str = ""


@dataclasses.dataclass(frozen=True)
class Leave:
    """To a rank: end now."""


@dataclasses.dataclass(frozen=True)
class Fork:
    """To a keeper: fork a rank that connects back to `port` with `secret`."""

    key: int
    port: int
    secret: str


@dataclasses.dataclass(frozen=True)
class Spawn:
    """To a keeper: start a program, its output going to `log`."""

    key: int
    command: tuple[str, ...]
    environment: dict[str, str]
    folder: Path
    log: Path


@dataclasses.dataclass(frozen=True)
class Stop:
    """To a keeper: wait `patience` seconds for these to end, then kill them, and whatever they left behind."""

    keys: tuple[int, ...]
    patience: float


@dataclasses.dataclass(frozen=True)
class Exited:
    """From a keeper: this one ended, with this exit code (negative for a signal); `killed` if by the keeper."""

    key: int
    exit_code: int
    killed: bool = False


@dataclasses.dataclass(frozen=True)
class NotStarted:
    """From a keeper: this one could not be started."""

    key: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Stopped:
    """From a keeper: a Stop is done; nothing is left but what other sets run."""


@dataclasses.dataclass(frozen=True)
class KeeperReady:
    """From a keeper: its imports are done; `problem` says why it cannot serve, or is empty."""

    problem: str = ""
