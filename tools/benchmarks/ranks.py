"""Ways of starting ranks against each other: jobs a minute, what the harness adds to a job, and memory.

    python -m tools.benchmarks.ranks [--jobs 40] [--cold-jobs 6] [--launcher env|mpi] [--require] [--json FILE]

Each way runs the same jobs: two ranks that train a small model with ZeRO-2 for three steps. Its time counts from the
moment its pool is opened, imports included. Cold ranks run fewer jobs, and their rate is taken to hold for all. What
the harness adds is a job's wall time less that of the slowest rank in its scenario. Memory is the greatest sum over the
harness and everything below it while a job runs, shared pages counted once (on Windows: of what each has for itself).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from conformance.hosts import mpi_library
from conformance.model.setting import Setting
from conformance.model.verdict import NotRun
from conformance.ranks import Job, RankPool, RankStatus, open_pool
from conformance.reference.errors import MpiError

GIB = 1 << 30
WORLD = 2
GOALS = {"forked": 8.0, "prewarmed": 5.0}
"""Jobs a minute, as multiples of those in cold ranks."""
ADDED_GOAL = 0.15
"""Seconds that the harness adds to a forked job, in the median."""
MEMORY_GOAL = 3 * GIB
_DEADLINE = 120.0
_HELD = 1.5


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One way of starting ranks.

    Attributes:
        way: `forked`, `prewarmed` or `cold`.
        jobs: how many were run.
        seconds: from opening the pool to the last outcome.
        first: from opening the pool to the first outcome, in seconds.
        wall: of the jobs after the first, the median in seconds.
        added: what the harness added to those, the median in seconds.
        memory: in bytes.
    """

    way: str
    jobs: int
    seconds: float
    first: float
    wall: float
    added: float
    memory: int

    @property
    def rate(self) -> float:
        """Jobs a minute."""
        return 60.0 * self.jobs / self.seconds

    def row(self, cold: Measurement) -> str:
        """A line of the table."""
        figures = f"{self.jobs:6}{self.first:10.2f}{self.rate:11.1f}{self.rate / cold.rate:9.1f}"
        return f"{self.way:12}{figures}{self.wall:9.3f}{self.added:9.3f}{self.memory / GIB:9.2f}"


def train(setting: Setting) -> dict[str, Any]:
    """What each rank does; with `hold`, it then keeps what it has for so many seconds."""
    import deepspeed
    import torch

    deepspeed.init_distributed("gloo", verbose=False)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_clipping": 0.0,
        "zero_optimization": {"stage": 2},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
    }
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=config)
    losses = []
    for _ in range(3):
        loss = engine(torch.ones(4, 16)).square().mean()
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    time.sleep(setting.get("hold", 0.0))
    engine.destroy()
    torch.distributed.destroy_process_group()
    return {"losses": losses}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0; 1 if a goal was missed and `--require` given; 2 if ranks cannot be started, or failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.ranks", description=__doc__)
    parser.add_argument("--jobs", type=int, default=40, help="jobs in each way (40)")
    parser.add_argument("--cold-jobs", type=int, default=6, metavar="JOBS", help="jobs in cold ranks (6)")
    parser.add_argument("--launcher", choices=("env", "mpi"), default="env", help="how ranks learn who they are (env)")
    parser.add_argument("--require", action="store_true", help="fail when a goal is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements there, too")
    options = parser.parse_args(arguments)
    if min(options.jobs, options.cold_jobs) < 2:
        parser.error("at least 2 jobs each, as the first counts apart")
    can_fork = sys.platform == "linux" and options.launcher == "env"
    ways = ("forked", "prewarmed", "cold") if can_fork else ("prewarmed", "cold")
    try:
        mpi = mpi_library.find() if options.launcher == "mpi" else None
        measurements = [measure(way, options.cold_jobs if way == "cold" else options.jobs, mpi) for way in ways]
    except (NotRun, MpiError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    cold = measurements[-1]
    print(f"launcher {mpi or 'env'}, {WORLD} ranks a job, {os.cpu_count()} processors; cold ranks ran {cold.jobs} jobs")
    print(f"{'ranks':12}{'jobs':>6}{'first s':>10}{'jobs/min':>11}{'÷ cold':>9}{'wall s':>9}{'added s':>9}{'GiB':>9}")
    for measurement in measurements:
        print(measurement.row(cold))
    if options.json is not None:
        found = [{**dataclasses.asdict(each), "ratio": each.rate / cold.rate} for each in measurements]
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    missed = misses(measurements)
    for miss in missed:
        print(miss)
    return 1 if missed and options.require else 0


def misses(measurements: Sequence[Measurement]) -> list[str]:
    """The goals that were missed, each in a line."""
    cold = measurements[-1]
    found = []
    for each in measurements[:-1]:
        if each.rate / cold.rate < GOALS[each.way]:
            found.append(
                f"{each.way}: {each.rate / cold.rate:.1f} times the jobs of cold ranks; goal {GOALS[each.way]:g}"
            )
        if each.way == "forked" and each.added > ADDED_GOAL:
            found.append(f"{each.way}: the harness adds {each.added:.3f} s to a job; goal {ADDED_GOAL} s")
        if each.memory > MEMORY_GOAL:
            found.append(f"{each.way}: {each.memory / GIB:.2f} GiB; goal {MEMORY_GOAL / GIB:g} GiB")
    return found


def measure(way: str, jobs: int, mpi: mpi_library.MpiLibrary | None) -> Measurement:
    """Run `jobs` jobs in one way.

    Raises:
        RuntimeError: a rank, or the harness, failed.
    """
    begin = time.perf_counter()
    environment = {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    launcher = "env" if mpi is None else "mpi"
    pool = open_pool(mode=way, launcher=launcher, mpi=mpi, environment=environment, worlds=[WORLD])
    try:
        added, walls, first = [], [], 0.0
        for number in range(jobs):
            start = time.perf_counter()
            slowest = _run(pool, launcher)
            wall = time.perf_counter() - start
            first = first or time.perf_counter() - begin
            if number:
                walls.append(wall)
                added.append(wall - slowest)
        seconds = time.perf_counter() - begin
        with MemoryMeter() as memory:
            _run(pool, launcher, hold=_HELD)
        return Measurement(way, jobs, seconds, first, statistics.median(walls), statistics.median(added), memory.peak)
    finally:
        pool.close()


def _run(pool: RankPool, launcher: str, hold: float = 0.0) -> float:
    """Run one job; returns the seconds of its slowest rank."""
    with tempfile.TemporaryDirectory(prefix="conformance-bench-", ignore_cleanup_errors=True) as folder:
        setting = Setting({"hold": hold}, None, WORLD, launcher, "gloo", "cpu", "deepspeed", Path(folder))
        outcome = pool.run(Job("bench/ranks", "tools.benchmarks.ranks:train", setting, _DEADLINE))
    bad = [report for report in outcome.reports if report.status is not RankStatus.RETURNED]
    if outcome.harness_error or bad:
        raise RuntimeError(outcome.harness_error or f"rank {bad[0].rank} {bad[0].status}: {bad[0].error}\n{bad[0].log}")
    return max(report.seconds for report in outcome.reports)


class MemoryMeter:
    """Measures, while entered, the greatest memory that this process and all below it take together."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> MemoryMeter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        me = psutil.Process()
        while not self._over.wait(0.1):
            total = 0
            for process in (me, *me.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    taken = process.memory_full_info()
                    total += getattr(taken, "pss", taken.uss)
            self.peak = max(self.peak, total)


if __name__ == "__main__":
    sys.exit(main())
