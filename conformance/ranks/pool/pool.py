"""What all ways of starting ranks share: from a job to an outcome, whatever the ranks do."""

from __future__ import annotations

import abc
import dataclasses
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from conformance.ranks.job import Job
from conformance.ranks.outcome import Outcome, RankReport
from conformance.ranks.pool import ports
from conformance.ranks.pool.hub import HarnessError, Hub, Starter
from conformance.ranks.pool.launcher import Launcher
from conformance.ranks.pool.settings import PoolSettings
from conformance.ranks.pool.watch import watch
from conformance.ranks.pool.worker_group import WorkerGroup, await_ready
from conformance.ranks.protocol.messages import Order


class RankPool(Protocol):
    """Runs jobs, one at a time."""

    def run(self, job: Job, *, fresh: bool = False) -> Outcome:
        """Run a job in ranks of its own and tell how each ended.

        Never raises for anything that a rank does; what the harness itself cannot do is the outcome's `harness_error`.

        Args:
            job: what to run.
            fresh: use only processes that have run no job before, to confirm what a reused set came to.
        """
        ...

    def expect(self, worlds: Sequence[int]) -> None:
        """Tell the world sizes of the jobs to come, in order, so that ranks can be started ahead."""
        ...

    def close(self) -> None:
        """End everything that was started; afterwards no process of it is left."""
        ...


@dataclasses.dataclass(frozen=True)
class Attempt:
    """What a kind of pool makes of a job: the ranks' reports, `Outcome.mode` and `Outcome.waited`."""

    reports: Sequence[RankReport]
    mode: str
    waited: float = 0.0


class Pool(abc.ABC):
    """The frame of a pool; each kind says how the ranks of a job come to be."""

    def __init__(self, settings: PoolSettings, launcher: Launcher) -> None:
        self.settings = settings
        self.launcher = launcher
        self.hub = Hub()
        self._jobs = 0
        self._closed = False

    def run(self, job: Job, *, fresh: bool = False) -> Outcome:
        """See `RankPool.run`."""
        begin = time.monotonic()
        self._jobs += 1
        made = Attempt((), "")
        error = None
        try:
            if self._closed:
                raise HarnessError("the pool of ranks is closed")
            made = self.attempt(job, fresh)
        except HarnessError as problem:
            error = str(problem)
        except OSError as problem:
            error = f"{type(problem).__name__}: {problem}"
        return Outcome(tuple(made.reports), time.monotonic() - begin, made.mode, error, made.waited)

    def expect(self, worlds: Sequence[int]) -> None:
        """See `RankPool.expect`; of no use where ranks start only when needed."""
        del worlds

    def close(self) -> None:
        """See `RankPool.close`."""
        if not self._closed:
            self._closed = True
            self.end()
            self.hub.close()
            if self.settings.passing:
                shutil.rmtree(self.settings.folder, ignore_errors=True)

    @abc.abstractmethod
    def attempt(self, job: Job, fresh: bool) -> Attempt:
        """Run `job`.

        Raises:
            HarnessError, OSError: the harness could not.
        """

    @abc.abstractmethod
    def end(self) -> None:
        """End every process."""

    def papers(self, job: Job) -> Path:
        """A new folder for the logs of a job's ranks, in the cell's folder."""
        parent = job.setting.folder / ".ranks"
        parent.mkdir(exist_ok=True)
        number = self._jobs
        while (folder := parent / f"{number:04d}").exists():
            number += 1
        folder.mkdir()
        return folder

    def conduct(
        self, job: Job, groups: Sequence[WorkerGroup], orders: Sequence[Order], starter: Starter
    ) -> list[RankReport]:
        """Give started groups their orders and watch them.

        Whatever goes wrong, Ctrl-C included, no group is left running.
        """
        try:
            await_ready(self.hub, groups)
            workers = [worker for group in groups for worker in group.workers]
            for group in groups:
                group.jobs += 1
            for worker, order in zip(workers, orders, strict=True):
                worker.give(order)
            return watch(self.hub, workers, job.deadline, starter)
        except BaseException:
            stop(groups, starter)
            raise

    def run_cold(self, job: Job, starter: Starter) -> Attempt:
        """Run a job in fresh interpreters, in which its variables hold from the very start."""
        port = ports.reserve()
        groups: list[WorkerGroup] = []
        try:
            orders = self.launcher.orders(job, self.papers(job), port.number)
            size = self.launcher.together(job.setting.world)
            for first in orders[::size]:
                log = first.log if size == 1 else first.log.with_name("mpiexec.log")
                folder = first.setting.folder
                groups.append(self.launcher.start(self.hub, starter, size, first.environment, folder, log))
            return Attempt(self.conduct(job, groups, orders, starter), "cold")
        finally:
            port.release()
            for group in groups:
                group.drop()


def stop(groups: Iterable[WorkerGroup], starter: Starter) -> None:
    """End groups in the middle of whatever they do, and what others have left behind."""
    doomed = list(groups)
    for group in doomed:
        group.drop()
    starter.stop([group.process for group in doomed], 0.0)
