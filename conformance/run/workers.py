"""How many workers a run is spread over where its user does not say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pytest

GIB: Final = 1 << 30

CELLS: Final = 30
"""Cells that a worker must have for its own start, some ten seconds of a core, to pay."""

MEMORY: Final[Mapping[str, float]] = {"forked": 1.5 * GIB, "prewarmed": 3.5 * GIB, "cold": 2.5 * GIB}
"""Bytes that a worker, its ranks and those that wait take at most, roughly, by how ranks are started."""

MEMORY_LEFT: Final = 1 * GIB
"""For the host itself."""


def workers(*, cores: float, memory: int, gpus: int | None, takes: Iterable[int] = (), cells: int, ranks: str) -> int:
    """How many processes shall run cells at the same time. Pure; at least 1.

    One for each core: a job's ranks wait for each other much of the time, and while they do, another worker's compute.

    Args:
        cores: processors' worth of time that may be used.
        memory: bytes that are free to be used.
        gpus: GPUs that ranks may use; None where they train on the CPU.
        takes: how many of them single cells take. A worker owns as many as the widest cell that the host can run: with
            fewer it would leave out what one worker runs.
        cells: how many are to be run.
        ranks: how they are started: `forked`, `prewarmed` or `cold`.
    """
    most = [int(cores), int((memory - MEMORY_LEFT) / MEMORY[ranks]), cells // CELLS]
    if gpus is not None:
        most.append(gpus // max((each for each in takes if 0 < each <= gpus), default=1))
    return max(1, min(most))


def worker_count(config: pytest.Config) -> int:
    """Over how many xdist workers a run is spread; 0 for none, or as long as nobody has said."""
    if hasattr(config, "workerinput"):
        return int(config.workerinput["workercount"])
    if config.getoption("dist", "no") != "no":
        return len(config.option.tx)
    asked = config.getoption("numprocesses", 0)
    return asked if isinstance(asked, int) else 0
