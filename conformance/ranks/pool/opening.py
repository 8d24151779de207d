"""Choosing how ranks are started."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.hosts import mpi_library
from conformance.hosts.inherited import inherited
from conformance.hosts.mpi_library import MpiLibrary
from conformance.ranks.pool.cold import ColdPool
from conformance.ranks.pool.launcher import FromEnvironment, FromMpi
from conformance.ranks.pool.pool import RankPool
from conformance.ranks.pool.reservoir import REUSE, ReservoirPool
from conformance.ranks.pool.settings import PoolSettings
from conformance.ranks.pool.variables import overlaid

MODES = ("auto", "forked", "cold", "prewarmed")
PRELOAD = ("torch", "deepspeed")


def open_pool(
    *,
    mode: str = "auto",
    launcher: str = "env",
    mpi: MpiLibrary | None = None,
    folder: Path | None = None,
    python: Sequence[str] = (sys.executable,),
    preload: Sequence[str] = PRELOAD,
    environment: Mapping[str, str | None] | None = None,
    worlds: Sequence[int] = (2,),
    reuse: int = REUSE,
    pools: int = 1,
) -> RankPool:
    """Open a pool of ranks.

    What it needs ahead of the first job starts in the background at once, so open it early.

    Args:
        mode: `forked` (Linux, launcher `env`), `prewarmed` (started ahead and used several times), `cold` (started when
            needed), or `auto`, the first of these that can be had.
        launcher: how ranks learn who they are, `env` or `mpi`.
        mpi: with launcher `mpi`, whose mpiexec starts them.
        folder: where the pool keeps its own logs, made if missing; None for one that goes when the pool is closed. Logs
            of ranks go to the folder of their cell.
        python: the command that runs the interpreter of ranks.
        preload: modules to import ahead; torch and DeepSpeed, and what the integration needs.
        environment: variables to set, or with None to unset, in all ranks of all jobs, over what is inherited
            from the caller.
        worlds: world sizes of the first jobs, for ranks started ahead.
        reuse: how many jobs a prewarmed rank serves; 1 for single use.
        pools: how many pools share this host, so that this one starts its share of ranks ahead.

    Raises:
        ValueError: there is no such mode, or not with this launcher or on this operating system.
        HarnessError: `python` cannot be started.
    """
    if mode not in MODES:
        raise ValueError(f"unknown mode of ranks {mode!r}; expected one of {', '.join(MODES)}")
    if launcher not in ("env", "mpi") or (launcher == "mpi") != (mpi is not None):
        raise ValueError(f"launcher {launcher!r} with mpi={mpi}; expected `env` without or `mpi` with an MPI library")
    can_fork = sys.platform == "linux" and mpi is None
    if mode == "auto":
        mode = "forked" if can_fork else "prewarmed"
    if mode == "forked" and not can_fork:
        raise ValueError(
            f"ranks cannot be forked on {sys.platform} with launcher {launcher}; use `prewarmed` or `cold`"
        )
    variables = overlaid(inherited(os.environ), environment or {})
    if mpi is not None:
        variables = overlaid(variables, mpi_library.environment(mpi, variables))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    where = Path(tempfile.mkdtemp(prefix="conformance-ranks-", dir=folder)).resolve()
    settings = PoolSettings(tuple(python), variables, tuple(preload), where, passing=folder is None)
    if mode == "forked" and sys.platform == "linux":
        from conformance.ranks.pool.forked import ForkedPool

        return ForkedPool(settings)
    start = FromEnvironment(settings) if mpi is None else FromMpi(settings, mpi)
    if mode == "cold":
        return ColdPool(settings, start)
    return ReservoirPool(settings, start, reuse, worlds, pools)
