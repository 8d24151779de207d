"""Running the steps of one cell without the harness: each rank a fresh interpreter that runs the same script again."""

from __future__ import annotations

import dataclasses
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.hosts.inherited import inherited
from conformance.model.setting import Setting
from conformance.model.verdict import NotRun, Unsupported


@dataclasses.dataclass(frozen=True)
class Step:
    """Ranks that are started together and run one function.

    Attributes:
        parameters: laid over the axes.
        environment: variables to set, or with None to unset.
    """

    scenario: Callable[[Setting], dict[str, Any]]
    world: int
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Cell:
    """What the script is about.

    Attributes:
        check: raises AssertionError unless what the ranks saw is right.
        given: names of what `check` takes.
        deadline: seconds a step, the start of its interpreters included.
        environment: of every rank.
    """

    id: str
    axes: Mapping[str, Any]
    steps: Sequence[Step]
    check: Callable[..., None]
    given: Sequence[str]
    launcher: str
    transport: str
    device: str
    integration: str
    deadline: float
    environment: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


GRACE = 15.0
"""Seconds that ranks have to end by themselves once one has failed."""

RANK_VARIABLES = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
SHARED_MEMORY_OP = "deepspeed_shm_comm"


def run(cell: Cell, script: str) -> int:
    """Run the cell, or one rank of it when the command line says so; returns the exit code, 1 for any failure.

    Args:
        script: the path of the file that calls this.
    """
    if sys.argv[1:2] == ["--rank-of-step"]:
        return be_rank(cell, int(sys.argv[2]), Path(sys.argv[3]))
    folder = Path(tempfile.mkdtemp(prefix="repro-"))
    try:
        verdict, reason = verdict_of(cell, str(Path(script).resolve()), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{verdict}: {reason}" if reason else f"\n{verdict}", flush=True)
    return 0 if verdict in ("PASS", "UNSUPPORTED", "NOT_RUN") else 1


def verdict_of(cell: Cell, script: str, folder: Path) -> tuple[str, str]:
    """Run all steps, then the check."""
    told: list[list[Any]] = []
    for number, step in enumerate(cell.steps):
        reports, late = start_ranks(cell, script, number, folder)
        if lost := [rank for rank, report in enumerate(reports) if report is None and rank not in late]:
            return "CRASH", f"rank {lost[0]} of {step.world} ended without a result"
        if raised := [f"rank {rank} raised {each[1]}" for rank, each in enumerate(reports) if each and not each[0]]:
            return "FAIL", "; ".join(raised)
        if late:
            return "TIMEOUT", f"rank {late[0]} still ran after {cell.deadline:.0f} s"
        told.append([report[1] for report in reports])
    offered = {"axes": cell.axes, "steps": told, "observations": told[-1], "measured": {}}
    try:
        cell.check(**{name: offered[name] for name in cell.given})
    except AssertionError as error:
        traceback.print_exc()
        return "FAIL", str(error)
    except Unsupported as refusal:
        return "UNSUPPORTED", str(refusal)
    except NotRun as lack:
        return "NOT_RUN", str(lack)
    return "PASS", ""


def start_ranks(cell: Cell, script: str, number: int, folder: Path) -> tuple[list[Any], list[int]]:
    """What each rank of a step reported, None for none, and which had to be stopped."""
    step = cell.steps[number]
    results = folder / ".results" / str(number)
    results.mkdir(parents=True)
    command = [sys.executable, script, "--rank-of-step", str(number), str(folder)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    base = {"OMP_NUM_THREADS": "1", **inherited(os.environ)}
    processes = []
    if cell.launcher == "mpi":
        environment = laid_over(base, cell.environment, step.environment)
        processes.append(subprocess.Popen(["mpiexec", "-n", str(step.world), *command], env=environment))
    else:
        for rank in range(step.world):
            numbers = {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            worlds = {"WORLD_SIZE": str(step.world), "LOCAL_WORLD_SIZE": str(step.world)}
            told = {"REPRO_RANK": str(rank)}
            environment = laid_over(base, cell.environment, {**numbers, **worlds}, step.environment, told)
            processes.append(subprocess.Popen(command, env=environment))
    end = time.monotonic() + cell.deadline
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        if any(process.poll() for process in processes):
            end = min(end, time.monotonic() + GRACE)
            while any(process.poll() is None for process in processes) and time.monotonic() < end:
                time.sleep(0.1)
            break
        time.sleep(0.1)
    late = [rank for rank, process in enumerate(processes) if process.poll() is None]
    for process in processes:
        process.kill()
        process.wait()
    files = [results / f"{rank}.pickle" for rank in range(step.world)]
    return [pickle.loads(file.read_bytes()) if file.exists() else None for file in files], late


def laid_over(base: Mapping[str, str], *changes: Mapping[str, str | None]) -> dict[str, str]:
    """An environment with variables set, or with None unset."""
    made: dict[str, str | None] = dict(base)
    for each in changes:
        made.update(each)
    return {name: value for name, value in made.items() if value is not None}


def be_rank(cell: Cell, number: int, folder: Path) -> int:
    """Run a step's scenario in this process and leave what it returned, or raised, in a file."""
    step = cell.steps[number]
    names = ("REPRO_RANK", *RANK_VARIABLES)
    rank = int(next((os.environ[name] for name in names if name in os.environ), "0"))
    os.environ.pop("REPRO_RANK", None)
    os.chdir(folder)
    sys.argv = ["scenario"]
    import deepspeed

    if deepspeed.accelerator.get_accelerator().device_name() == "cpu":
        # Else DeepSpeed compiles a collective for shared memory when it connects, for a minute, and does not use it.
        deepspeed.ops.__compatible_ops__[SHARED_MEMORY_OP] = False
    setting = Setting(
        parameters={**cell.axes, **step.parameters},
        rank=rank if cell.launcher == "env" else None,
        world=step.world,
        launcher=cell.launcher,
        transport=cell.transport,
        device=cell.device,
        integration=cell.integration,
        folder=folder,
    )
    report: tuple[bool, Any]
    try:
        report = (True, step.scenario(setting))
    except BaseException as error:
        traceback.print_exc()
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        report = (False, f"{name}: {error}")
    file = folder / ".results" / str(number) / f"{rank}.pickle"
    file.with_suffix(".new").write_bytes(pickle.dumps(report))
    file.with_suffix(".new").replace(file)
    mpi = sys.modules.get("mpi4py.MPI")
    if report[0] and mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if report[0] else 1)  # without the interpreter's shutdown, which may wait for threads of collectives
