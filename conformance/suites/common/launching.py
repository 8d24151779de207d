"""Starting ranks by launchers that are programs of their own: torchrun and DeepSpeed's."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from conformance.hosts.inherited import without_outer_job
from conformance.model.setting import Observation, Setting
from conformance.ranks.pool.excerpt import excerpt

ROOT = Path(__file__).resolve().parents[3]
WORKER = "conformance.suites.common.launched"
TAIL = 800
"""Bytes of a launcher's output that are kept: where tracebacks say what was wrong, short enough for a reason."""


def launch(
    setting: Setting, commands: Sequence[Sequence[str]], world: int, seconds: float, *, worker: str | None = None
) -> Observation:
    """Run launchers side by side, each of which starts some of the ranks, and gather what the ranks observed.

    Args:
        commands: of each launcher, the arguments for Python; `worker` and its arguments are appended.
        world: the number of ranks that they start together.
        seconds: after which everything that still runs is ended.
        worker: the module that a rank runs; WORKER by default.

    Returns:
        `ranks`: the observations by rank, None for a rank that left none; `exits`: the launchers' exit codes, None for
        one that had to be ended; `output`: the ends of what they wrote.
    """
    folder = setting.folder / str(setting.get("name", "launched"))
    folder.mkdir()
    papers = folder / "setting.pickle"
    papers.write_bytes(pickle.dumps(dataclasses.replace(setting, rank=None, world=world)))
    environment = {**without_outer_job(os.environ), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    logs = [folder / f"launcher{number}.log" for number in range(len(commands))]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command, log in zip(commands, logs, strict=True):
            with log.open("wb") as output:
                line = [sys.executable, *command, worker or WORKER, str(papers)]
                started.append(subprocess.Popen(line, env=environment, stdout=output, stderr=subprocess.STDOUT))
        limit = time.monotonic() + seconds
        exits = [_wait(process, limit) for process in started]
    finally:
        for process in started:
            _end(process)
    return {
        "ranks": [_read(folder / f"rank{rank}.pickle") for rank in range(world)],
        "exits": exits,
        "output": "\n".join(excerpt(log, head=0, tail=TAIL) for log in logs),
    }


def report(papers: Path, rank: int, observation: Observation) -> None:
    """Leave a rank's observation where `launch` looks for it; called in a launched rank."""
    whole = papers.with_name(f"rank{rank}.pickle")
    part = whole.with_suffix(".part")
    part.write_bytes(pickle.dumps(observation))
    part.replace(whole)


def _wait(process: subprocess.Popen[bytes], limit: float) -> int | None:
    try:
        return process.wait(timeout=max(0.0, limit - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a launcher that still runs, and all that it started."""
    if process.poll() is not None:
        return
    tree = [psutil.Process(process.pid)]
    tree += tree[0].children(recursive=True)
    for member in tree:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
    psutil.wait_procs(tree, timeout=5)


def _read(path: Path) -> Any:
    return pickle.loads(path.read_bytes()) if path.exists() else None
