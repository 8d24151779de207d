"""One fresh interpreter a rank, started when needed."""

from __future__ import annotations

from conformance.ranks.circumstances import Circumstances
from conformance.ranks.hub import HarnessError, Starter
from conformance.ranks.job import Job
from conformance.ranks.outcome import RankReport
from conformance.ranks.pool import Pool
from conformance.ranks.starting import open_starter


class ColdPool(Pool):
    """Every job in interpreters of its own."""

    def __init__(self, circumstances: Circumstances) -> None:
        super().__init__(circumstances)
        self._starter: Starter | None = None

    def mode(self, job: Job, fresh: bool) -> str:
        """Always `cold`."""
        return "cold"

    def attempt(self, job: Job, mode: str) -> list[RankReport]:
        """Run `job`; a starter that is lost by it is replaced for the next."""
        if self._starter is None or not self._starter.alive:
            self.end()
            self._starter = open_starter(self.hub, self.circumstances)
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
