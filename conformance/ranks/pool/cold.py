"""One fresh interpreter a rank, started when needed."""

from __future__ import annotations

from conformance.ranks.job import Job
from conformance.ranks.platform.starting import open_starter
from conformance.ranks.pool.hub import HarnessError, Starter
from conformance.ranks.pool.launcher import Launcher
from conformance.ranks.pool.pool import Attempt, Pool
from conformance.ranks.pool.settings import PoolSettings


class ColdPool(Pool):
    """Every job in interpreters of its own."""

    def __init__(self, settings: PoolSettings, launcher: Launcher) -> None:
        super().__init__(settings, launcher)
        self._starter: Starter | None = None

    def attempt(self, job: Job, fresh: bool) -> Attempt:
        """Run `job`; a starter that is lost by it is replaced for the next."""
        if self._starter is None or not self._starter.alive:
            self.end()
            self._starter = open_starter(self.hub, self.settings)
        try:
            return self.run_cold(job, self._starter)
        except HarnessError:
            self.end()
            raise

    def end(self) -> None:
        """End the starter and all that came from it."""
        if self._starter is not None:
            self._starter.close()
            self._starter = None
