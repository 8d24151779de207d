"""Ranks started ahead of need, so that their imports overlap the running job, and used for several jobs."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence

import psutil

from conformance.ranks import ports
from conformance.ranks.circumstances import Circumstances
from conformance.ranks.crew import START_TIMEOUT, Crew
from conformance.ranks.environment import needs_fresh_interpreter
from conformance.ranks.hub import HarnessError, Starter
from conformance.ranks.job import Job
from conformance.ranks.launching import Launcher
from conformance.ranks.pool import Attempt, Pool, stop
from conformance.ranks.starting import open_starter

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

    A job in whose outcome every rank returned leaves its crews clean for the next, up to `reuse` jobs; any other ends
    them. Jobs that ask for it get crews that have run nothing; jobs that need fresh interpreters get those.

    Args:
        circumstances: of the pool.
        launcher: how ranks learn who they are.
        reuse: jobs that a rank serves; 1 for single use.
        worlds: world sizes of the first jobs.
    """

    def __init__(
        self, circumstances: Circumstances, launcher: Launcher, reuse: int = REUSE, worlds: Sequence[int] = (2,)
    ) -> None:
        super().__init__(circumstances, launcher)
        self._reuse = max(reuse, 1)
        self._worlds = list(worlds)
        self._crews: list[Crew] = []
        """Those that wait, or start, or clean up."""
        self._risky: set[int] = set()
        """Sizes of crews of which the last job has ended one: the next may do so too."""
        self._started = 0
        self._limit = max(2, int(psutil.virtual_memory().available * _MEMORY_SHARE / _MEMORY_OF_A_RANK))
        self._starter: Starter | None = open_starter(self.hub, circumstances)
        self._refill()

    def expect(self, worlds: Sequence[int]) -> None:
        """See `RankPool.expect`."""
        self._worlds = list(worlds[:_SHOWN])
        self._refill()

    def attempt(self, job: Job, fresh: bool) -> Attempt:
        """Run `job`; a starter that is lost by it is replaced for the next."""
        if self._starter is None or not self._starter.alive:
            self.end()
            self._starter = open_starter(self.hub, self.circumstances)
        starter = self._starter
        try:
            if job.cold or needs_fresh_interpreter(job.environment):
                return self.run_cold(job, starter)
            return self._run_in_crews(job, starter, unused=fresh)
        except HarnessError:
            if not starter.alive:
                self.end()
            raise

    def end(self) -> None:
        """End the starter and all that came from it."""
        for crew in self._crews:
            crew.drop()
        self._crews.clear()
        if self._starter is not None:
            self._starter.close()
            self._starter = None

    def _run_in_crews(self, job: Job, starter: Starter, unused: bool) -> Attempt:
        crews = self._take(job.setting.world, unused, starter)
        mode = "reused" if any(crew.jobs for crew in crews) else "prewarmed"
        port = ports.reserve()
        try:
            orders = self.launcher.orders(job, self.papers(job), port.number)
            again = [crew.jobs + 1 < self._reuse for crew in crews for _ in range(crew.size)]
            orders = [dataclasses.replace(order, again=flag) for order, flag in zip(orders, again, strict=True)]
            self._refill(job.setting.world, taken=crews)
            reports = self.conduct(job, crews, orders, starter)
        finally:
            port.release()
        self._keep_clean(crews, starter)
        return Attempt(reports, mode)

    def _keep_clean(self, crews: Sequence[Crew], starter: Starter) -> None:
        """Put crews that are as they were before back to the others, and end the rest."""

        def clean(crew: Crew) -> bool:
            return crew.ready and starter.count(crew.process) <= crew.population

        # Processes of a job, and Windows' hosts of their consoles, may take a moment to end after their parent.
        limit = time.monotonic() + _CLEANING
        while not all(clean(crew) or crew.broken for crew in crews) and (left := limit - time.monotonic()) > 0:
            self.hub.poll(min(left, _LOOK))
        kept = [crew for crew in crews if clean(crew) and not crew.broken]
        lost = [crew for crew in crews if crew not in kept]
        stop([crew for crew in lost if not crew.process.ended], starter)
        self._crews += kept
        sizes = {crew.size for crew in crews}
        self._risky = self._risky | sizes if lost else self._risky - sizes

    def _settle(self, crews: Sequence[Crew], timeout: float) -> None:
        self.hub.wait(lambda: all(crew.ready or crew.broken for crew in crews), timeout)

    def _take(self, world: int, unused: bool, starter: Starter) -> list[Crew]:
        """Crews for a job, out of those that wait; started if there are none.

        Raises:
            HarnessError: they cannot be started.
        """
        size = self.launcher.together(world)
        count = world // size
        self.hub.catch_up()
        while True:
            broken = [crew for crew in self._crews if crew.broken]
            self._crews = [crew for crew in self._crews if crew not in broken]
            if broken:
                stop(broken, starter)
            fitting = [crew for crew in self._crews if crew.size == size and not (unused and crew.jobs)]
            chosen = sorted(fitting, key=lambda crew: (crew.jobs == 0, not crew.ready))[:count]
            self._make_room((count - len(chosen)) * size, chosen, starter)
            while len(chosen) < count:
                chosen.append(self._start(size, starter))
            self._settle(chosen, START_TIMEOUT)
            failed = [crew for crew in chosen if not crew.ready and not crew.jobs]
            if failed:
                self._crews = [crew for crew in self._crews if crew not in failed]
                reason = failed[0].process.failure or f"their log ends: {failed[0].words()}"
                stop(failed, starter)
                raise HarnessError(f"ranks that were started ahead did not get ready; {reason}")
            if all(crew.ready for crew in chosen):
                self._crews = [crew for crew in self._crews if crew not in chosen]
                for crew in chosen:
                    crew.population = crew.population or starter.count(crew.process)
                return chosen

    def _refill(self, world: int | None = None, taken: Sequence[Crew] = ()) -> None:
        """Start crews that jobs to come will need: where they may be lost by the one that runs, spare ones."""
        if self._starter is None or not self._starter.alive:
            return
        wanted: dict[int, int] = {}
        for each in self._worlds or ([world] if world is not None else []):
            size = self.launcher.together(each)
            wanted[size] = max(wanted.get(size, 0), each // size)
        for size, count in wanted.items():
            waiting = self._crews if size in self._risky else [*self._crews, *taken]
            for _ in range(count - sum(crew.size == size for crew in waiting)):
                starting = sum(crew.size for crew in self._crews if not crew.ready)
                present = sum(crew.size for crew in (*self._crews, *taken))
                if starting and starting + size > (os.cpu_count() or 1):
                    return
                if present + size > self._limit:
                    return
                self._start(size, self._starter)

    def _make_room(self, needed: int, chosen: Sequence[Crew], starter: Starter) -> None:
        """End waiting crews where there is no memory for `needed` ranks more."""
        if not needed:
            return
        for crew in [crew for crew in self._crews if crew not in chosen]:
            if sum(each.size for each in self._crews) + needed <= self._limit:
                return
            self._crews.remove(crew)
            stop([crew], starter)

    def _start(self, size: int, starter: Starter) -> Crew:
        self._started += 1
        log = self.circumstances.folder / f"crew{self._started:04d}.log"
        crew = self.launcher.start(self.hub, starter, size, {}, self.circumstances.folder, log)
        self._crews.append(crew)
        return crew
