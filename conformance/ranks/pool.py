"""What all ways of starting ranks share: from a job to an outcome, whatever the ranks do."""

from __future__ import annotations

import abc
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from conformance.ranks import ports
from conformance.ranks.circumstances import Circumstances
from conformance.ranks.hub import HarnessError, Hub, Process, Starter
from conformance.ranks.job import Job
from conformance.ranks.messages import Order
from conformance.ranks.outcome import Outcome, RankReport
from conformance.ranks.rank_set import Member, await_ready, watch


class RankPool(Protocol):
    """Runs jobs, one at a time."""

    def run(self, job: Job, *, fresh: bool = False) -> Outcome:
        """Run a job in ranks of its own and tell how each ended.

        Never raises for anything that a rank does; what the harness itself cannot do is the outcome's `harness_error`.

        Args:
            job: what to run.
            fresh: use only processes that have run no job before.
        """
        ...

    def expect(self, worlds: Sequence[int]) -> None:
        """Tell the world sizes of the jobs to come, in order, so that ranks can be started ahead."""
        ...

    def close(self) -> None:
        """End everything that was started; afterwards no process of it is left."""
        ...


class Pool(abc.ABC):
    """The frame of a pool; each kind says how the ranks of a job come to be."""

    def __init__(self, circumstances: Circumstances) -> None:
        self.circumstances = circumstances
        self.hub = Hub()
        self._jobs = 0
        self._closed = False

    def run(self, job: Job, *, fresh: bool = False) -> Outcome:
        """See `RankPool.run`."""
        begin = time.monotonic()
        self._jobs += 1
        mode = self.mode(job, fresh)
        reports: tuple[RankReport, ...] = ()
        error = None
        try:
            if self._closed:
                raise HarnessError("the pool of ranks is closed")
            reports = tuple(self.attempt(job, mode))
        except HarnessError as problem:
            error = str(problem)
        except OSError as problem:
            error = f"{type(problem).__name__}: {problem}"
        return Outcome(reports, time.monotonic() - begin, mode, error)

    def expect(self, worlds: Sequence[int]) -> None:
        """See `RankPool.expect`; of no use where ranks start only when needed."""
        del worlds

    def close(self) -> None:
        """See `RankPool.close`."""
        if not self._closed:
            self._closed = True
            self.end()
            self.hub.close()
            if self.circumstances.passing:
                shutil.rmtree(self.circumstances.folder, ignore_errors=True)

    @abc.abstractmethod
    def mode(self, job: Job, fresh: bool) -> str:
        """How `job` is to be run, as `Outcome.mode` says it."""

    @abc.abstractmethod
    def attempt(self, job: Job, mode: str) -> Sequence[RankReport]:
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
        self, job: Job, members: Sequence[Member], orders: Sequence[Order], starter: Starter
    ) -> list[RankReport]:
        """Give started members their orders and watch them.

        Whatever goes wrong, Ctrl-C included, no member is left running.
        """
        try:
            await_ready(self.hub, members)
            for member, order in zip(members, orders, strict=True):
                member.give(order)
            return watch(self.hub, members, job.deadline, starter)
        except BaseException:
            self.abandon(members, starter)
            raise

    def abandon(self, members: Sequence[Member], starter: Starter) -> None:
        """End members in the middle of whatever they do."""
        for member in members:
            self.hub.drop(member)
        processes: set[Process] = {member.process for member in members if member.process is not None}
        starter.stop([process for process in processes if not process.ended], 0.0)

    def run_cold(self, job: Job, starter: Starter) -> list[RankReport]:
        """Run a job in fresh interpreters, in which its variables hold from the very start."""
        port = ports.reserve()
        try:
            orders = self.circumstances.orders(job, self.papers(job), port.number)
            members = []
            for order in orders:
                member = Member()
                variables = self.circumstances.join(order.environment, self.hub.expect(member))
                member.process = starter.spawn(
                    self.circumstances.rank_command, variables, order.setting.folder, order.log
                )
                members.append(member)
            return self.conduct(job, members, orders, starter)
        finally:
            port.release()
