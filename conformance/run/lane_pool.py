"""The rank pool that suits a lane on this host."""

from __future__ import annotations

import importlib.util
import pkgutil
import sys
from collections.abc import Collection, Sequence
from typing import Final

from conformance import integrations
from conformance.hosts import probes
from conformance.matrix import MatrixError
from conformance.matrix.lane import Lane
from conformance.ranks import RankPool, open_pool
from conformance.ranks.pool.opening import MODES
from conformance.run.context import RunContext

_SCENARIOS_USE: Final = (
    "conformance.models",
    "conformance.integrations.master_weights",
    "conformance.oracle.trajectory",
)
"""What scenarios of most suites import when they run."""


def check_mode(mode: str, lane: Lane) -> None:
    """Whether --ranks `mode` can be had on a lane here.

    Raises:
        MatrixError: it cannot.
    """
    if mode not in MODES:
        raise MatrixError(f"--ranks: found {mode!r}, expected one of {', '.join(MODES)}")
    if mode == "forked" and (lane.launcher != "env" or sys.platform != "linux"):
        raise MatrixError(
            f"--ranks: found 'forked' on lane {lane.name}, expected prewarmed or cold: "
            "only Linux forks, and never under mpiexec"
        )


def ranks_mode(mode: str, lane: Lane) -> str:
    """How ranks are started with --ranks `mode` on a lane. Pure."""
    return lane.ranks if mode == "auto" else mode


def open_lane_pool(
    mode: str, context: RunContext, driven: Sequence[str], suites: Collection[str], pools: int = 1
) -> RankPool:
    """Open the pool of a process of a run.

    Args:
        mode: the --ranks option.
        driven: the integrations that ranks import ahead.
        suites: those that cells are of; ranks import their modules ahead.
        pools: how many of them share the host.
    """
    lane = context.lane
    environment: dict[str, str | None] = dict(lane.environment)
    if context.device == "cpu":
        environment |= {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    else:
        environment |= context.ground.variables()
    return open_pool(
        mode=ranks_mode(mode, lane),
        launcher=lane.launcher,
        mpi=probes.mpi() if lane.launcher == "mpi" else None,
        environment=environment,
        pools=pools,
        # What is not installed has cells that are not run, and nothing to import.
        preload=[
            "torch",
            "deepspeed",
            *(integrations.entry(name).module for name in driven if integrations.missing(name) is None),
            *_SCENARIOS_USE,
            *suite_modules(suites),
        ],
    )


def suite_modules(suites: Collection[str]) -> list[str]:
    """The modules of suites that are ours, in which ranks find scenarios; others are found when they are needed."""
    modules = []
    for suite in suites:
        spec = importlib.util.find_spec(f"conformance.suites.{suite}")
        if spec is not None:
            modules.append(spec.name)
            rooms = pkgutil.iter_modules(spec.submodule_search_locations or ())
            modules += [f"{spec.name}.{room.name}" for room in rooms]
    return modules
