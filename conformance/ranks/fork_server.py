"""Ranks forked from a process that has torch and DeepSpeed imported: Linux, launcher `env`."""

from __future__ import annotations

import sys

from conformance.ranks import ports
from conformance.ranks.circumstances import Circumstances, roots
from conformance.ranks.environment import needs_fresh_interpreter
from conformance.ranks.hub import HarnessError
from conformance.ranks.job import Job
from conformance.ranks.outcome import RankReport
from conformance.ranks.pool import Pool
from conformance.ranks.rank_set import START_TIMEOUT, Member

assert sys.platform == "linux"

from conformance.ranks.linux import LinuxStarter  # noqa: E402, nothing there for other systems


class ForkedPool(Pool):
    """A fork server, started at once so that its imports overlap what the caller does until the first job.

    Jobs that ask for fresh interpreters, or change variables that are read on import, get them.
    """

    def __init__(self, circumstances: Circumstances) -> None:
        super().__init__(circumstances)
        self._servers = 0
        self._server: LinuxStarter | None = None
        self._server = self._start()

    def mode(self, job: Job, fresh: bool) -> str:
        """`cold` where the job needs it, else `forked`."""
        return "cold" if job.cold or needs_fresh_interpreter(job.environment) else "forked"

    def attempt(self, job: Job, mode: str) -> list[RankReport]:
        """Run `job`; a fork server that is lost by it is replaced for the next."""
        if self._server is None or not self._server.alive:
            self.end()
            self._server = self._start()
        server = self._server
        try:
            server.wait_ready(START_TIMEOUT)
            return self.run_cold(job, server) if mode == "cold" else self._run_forked(job, server)
        except HarnessError:
            self.end()
            raise

    def end(self) -> None:
        """End the fork server and all that came from it."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _start(self) -> LinuxStarter:
        self._servers += 1
        return LinuxStarter(
            self.hub,
            self.circumstances.python,
            self.circumstances.environment,
            self.circumstances.folder / f"fork_server{self._servers}.log",
            self.circumstances.preload,
            roots(),
        )

    def _run_forked(self, job: Job, server: LinuxStarter) -> list[RankReport]:
        port = ports.reserve()
        try:
            orders = self.circumstances.orders(job, self.papers(job), port.number)
            members = []
            for _ in orders:
                member = Member()
                member.process = server.fork(self.hub.expect(member))
                members.append(member)
            return self.conduct(job, members, orders, server)
        finally:
            port.release()
