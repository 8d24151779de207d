"""Ranks started ahead of need, so that their imports overlap the running job, and used for several jobs."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence

import psutil

from conformance.ranks.job import Job
from conformance.ranks.platform.starting import open_starter
from conformance.ranks.pool import ports
from conformance.ranks.pool.hub import HarnessError, Starter
from conformance.ranks.pool.launcher import Launcher
from conformance.ranks.pool.pool import Attempt, Pool, stop
from conformance.ranks.pool.settings import PoolSettings
from conformance.ranks.pool.variables import needs_fresh_interpreter
from conformance.ranks.pool.worker_group import START_TIMEOUT, WorkerGroup

REUSE = 100
"""Jobs that a rank serves."""
_MEMORY_OF_A_RANK = 450 << 20
"""Bytes that a waiting rank takes, roughly."""
_MEMORY_SHARE = 0.5
"""Of what is available at first, for waiting ranks."""
_CLEANING = 10.0
"""Seconds that ranks have to clean up after a job."""
_LOOK = 0.05
"""Seconds between looks at what only the system tells."""
_SHOWN = 32
"""World sizes of jobs to come that are looked at."""


class ReservoirPool(Pool):
    """Crews that wait for jobs.

    A job in whose outcome every rank returned leaves its groups clean for the next, up to `reuse` jobs; any other ends
    them. Jobs that ask for it get groups that have run nothing; jobs that need fresh interpreters get those.

    Args:
        settings: of the pool.
        launcher: how ranks learn who they are.
        reuse: jobs that a rank serves; 1 for single use.
        worlds: world sizes of the first jobs.
        pools: how many pools share the host.
    """

    def __init__(
        self,
        settings: PoolSettings,
        launcher: Launcher,
        reuse: int = REUSE,
        worlds: Sequence[int] = (2,),
        pools: int = 1,
    ) -> None:
        super().__init__(settings, launcher)
        self._reuse = max(reuse, 1)
        self._worlds = list(worlds)
        self._groups: list[WorkerGroup] = []
        """Those that wait, or start, or clean up."""
        self._risky: set[int] = set()
        """Sizes of groups of which the last job has ended one: the next may do so too."""
        self._started = 0
        self._limit = max(2, int(psutil.virtual_memory().available * _MEMORY_SHARE / _MEMORY_OF_A_RANK / pools))
        self._at_once = max(1, (os.cpu_count() or 1) // pools)
        self._starter: Starter | None = open_starter(self.hub, settings)
        self._refill()

    def expect(self, worlds: Sequence[int]) -> None:
        """See `RankPool.expect`."""
        self._worlds = list(worlds[:_SHOWN])
        self._refill()

    def attempt(self, job: Job, fresh: bool) -> Attempt:
        """Run `job`; a starter that is lost by it is replaced for the next."""
        if self._starter is None or not self._starter.alive:
            self.end()
            self._starter = open_starter(self.hub, self.settings)
        starter = self._starter
        try:
            if job.cold or needs_fresh_interpreter(job.environment):
                return self.run_cold(job, starter)
            return self._run_in_groups(job, starter, unused=fresh)
        except HarnessError:
            if not starter.alive:
                self.end()
            raise

    def end(self) -> None:
        """End the starter and all that came from it."""
        for group in self._groups:
            group.drop()
        self._groups.clear()
        if self._starter is not None:
            self._starter.close()
            self._starter = None

    def _run_in_groups(self, job: Job, starter: Starter, unused: bool) -> Attempt:
        groups = self._take(job.setting.world, unused, starter)
        mode = "reused" if any(group.jobs for group in groups) else "prewarmed"
        port = ports.reserve()
        try:
            orders = self.launcher.orders(job, self.papers(job), port.number)
            again = [group.jobs + 1 < self._reuse for group in groups for _ in range(group.size)]
            orders = [dataclasses.replace(order, again=flag) for order, flag in zip(orders, again, strict=True)]
            self._refill(job.setting.world, taken=groups)
            reports = self.conduct(job, groups, orders, starter)
        finally:
            port.release()
        self._keep_clean(groups, starter)
        return Attempt(reports, mode)

    def _keep_clean(self, groups: Sequence[WorkerGroup], starter: Starter) -> None:
        """Put groups that are as they were before back to the others, and end the rest."""

        def clean(group: WorkerGroup) -> bool:
            return group.ready and starter.count(group.process) <= group.population

        # Processes of a job, and Windows' hosts of their consoles, may take a moment to end after their parent.
        limit = time.monotonic() + _CLEANING
        while not all(clean(group) or group.broken for group in groups) and (left := limit - time.monotonic()) > 0:
            self.hub.poll(min(left, _LOOK))
        kept = [group for group in groups if clean(group) and not group.broken]
        lost = [group for group in groups if group not in kept]
        stop([group for group in lost if not group.process.ended], starter)
        self._groups += kept
        sizes = {group.size for group in groups}
        self._risky = self._risky | sizes if lost else self._risky - sizes

    def _settle(self, groups: Sequence[WorkerGroup], timeout: float) -> None:
        self.hub.wait(lambda: all(group.ready or group.broken for group in groups), timeout)

    def _take(self, world: int, unused: bool, starter: Starter) -> list[WorkerGroup]:
        """Crews for a job, out of those that wait; started if there are none.

        Raises:
            HarnessError: they cannot be started.
        """
        size = self.launcher.together(world)
        count = world // size
        self.hub.catch_up()
        while True:
            broken = [group for group in self._groups if group.broken]
            self._groups = [group for group in self._groups if group not in broken]
            if broken:
                stop(broken, starter)
            fitting = [group for group in self._groups if group.size == size and not (unused and group.jobs)]
            chosen = sorted(fitting, key=lambda group: (group.jobs == 0, not group.ready))[:count]
            self._make_room((count - len(chosen)) * size, chosen, starter)
            while len(chosen) < count:
                chosen.append(self._start(size, starter))
            self._settle(chosen, START_TIMEOUT)
            failed = [group for group in chosen if not group.ready and not group.jobs]
            if failed:
                self._groups = [group for group in self._groups if group not in failed]
                reason = failed[0].process.failure or f"their log ends: {failed[0].words()}"
                stop(failed, starter)
                raise HarnessError(f"ranks that were started ahead did not get ready; {reason}")
            if all(group.ready for group in chosen):
                self._groups = [group for group in self._groups if group not in chosen]
                for group in chosen:
                    group.population = group.population or starter.count(group.process)
                return chosen

    def _refill(self, world: int | None = None, taken: Sequence[WorkerGroup] = ()) -> None:
        """Start groups that jobs to come will need: where they may be lost by the one that runs, spare ones."""
        if self._starter is None or not self._starter.alive:
            return
        wanted: dict[int, int] = {}
        for each in self._worlds or ([world] if world is not None else []):
            size = self.launcher.together(each)
            wanted[size] = max(wanted.get(size, 0), each // size)
        for size, count in wanted.items():
            waiting = self._groups if size in self._risky else [*self._groups, *taken]
            for _ in range(count - sum(group.size == size for group in waiting)):
                starting = sum(group.size for group in self._groups if not group.ready)
                present = sum(group.size for group in (*self._groups, *taken))
                if starting and starting + size > self._at_once:
                    return
                if present + size > self._limit:
                    return
                self._start(size, self._starter)

    def _make_room(self, needed: int, chosen: Sequence[WorkerGroup], starter: Starter) -> None:
        """End waiting groups where there is no memory for `needed` ranks more."""
        if not needed:
            return
        for group in [group for group in self._groups if group not in chosen]:
            if sum(each.size for each in self._groups) + needed <= self._limit:
                return
            self._groups.remove(group)
            stop([group], starter)

    def _start(self, size: int, starter: Starter) -> WorkerGroup:
        self._started += 1
        log = self.settings.folder / f"group{self._started:04d}.log"
        group = self.launcher.start(self.hub, starter, size, {}, self.settings.folder, log)
        self._groups.append(group)
        return group
