"""Ranks forked from a process that has torch and DeepSpeed imported: Linux, launcher `env`."""

from __future__ import annotations

import dataclasses
import sys
import time

from conformance.ranks import ports
from conformance.ranks.circumstances import Circumstances
from conformance.ranks.crew import START_TIMEOUT, Crew
from conformance.ranks.environment import FORK_SERVER, needs_fresh_interpreter
from conformance.ranks.hub import HarnessError
from conformance.ranks.job import Job
from conformance.ranks.launching import FromEnvironment
from conformance.ranks.pool import Attempt, Pool

assert sys.platform == "linux"

from conformance.ranks.linux import LinuxStarter  # noqa: E402, nothing there for other systems


class ForkedPool(Pool):
    """A fork server, started at once so that its imports overlap what the caller does until the first job.

    Jobs that ask for fresh interpreters, or change variables that are read on import, get them.
    """

    def __init__(self, circumstances: Circumstances) -> None:
        base = {"OMP_NUM_THREADS": "1", **circumstances.environment}
        beneath = {name: base.get(name) for name in FORK_SERVER}  # the fork server's own settings are not the ranks'
        super().__init__(circumstances, FromEnvironment(circumstances, beneath))
        self._servers = 0
        self._server: LinuxStarter | None = None
        self._server = self._start()

    def attempt(self, job: Job, fresh: bool) -> Attempt:
        """Run `job`; a fork server that is lost by it is replaced for the next."""
        if self._server is None or not self._server.alive:
            self.end()
            self._server = self._start()
        server = self._server
        begin = time.monotonic()
        try:
            server.wait_ready(START_TIMEOUT)
            waited = time.monotonic() - begin
            if job.cold or needs_fresh_interpreter(job.environment):
                made = self.run_cold(job, server)
            else:
                made = self._run_forked(job, server)
            return dataclasses.replace(made, waited=waited)
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
        log = self.circumstances.folder / f"fork_server{self._servers}.log"
        return LinuxStarter(self.hub, self.circumstances, log, self.circumstances.preload)

    def _run_forked(self, job: Job, server: LinuxStarter) -> Attempt:
        port = ports.reserve()
        crews: list[Crew] = []
        try:
            orders = self.launcher.orders(job, self.papers(job), port.number)
            for order in orders:
                crew = Crew(self.hub)
                crew.process = server.fork(crew.secret, order.log)
                crews.append(crew)
            return Attempt(self.conduct(job, crews, orders, server), "forked")
        finally:
            port.release()
            for crew in crews:
                crew.drop()
