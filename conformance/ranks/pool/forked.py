"""Ranks forked from a process that has torch and DeepSpeed imported: Linux, launcher `env`."""

from __future__ import annotations

import dataclasses
import sys
import time

from conformance.ranks.job import Job
from conformance.ranks.pool import ports
from conformance.ranks.pool.hub import HarnessError
from conformance.ranks.pool.launcher import FromEnvironment
from conformance.ranks.pool.pool import Attempt, Pool
from conformance.ranks.pool.settings import PoolSettings
from conformance.ranks.pool.variables import FORK_SERVER, needs_fresh_interpreter
from conformance.ranks.pool.worker_group import START_TIMEOUT, WorkerGroup

assert sys.platform == "linux"

from conformance.ranks.platform.linux import LinuxStarter  # noqa: E402, nothing there for other systems


class ForkedPool(Pool):
    """A fork server, started at once so that its imports overlap what the caller does until the first job.

    Jobs that ask for fresh interpreters, or change variables that are read on import, get them.
    """

    def __init__(self, settings: PoolSettings) -> None:
        base = {"OMP_NUM_THREADS": "1", **settings.environment}
        beneath = {name: base.get(name) for name in FORK_SERVER}  # the fork server's own settings are not the ranks'
        super().__init__(settings, FromEnvironment(settings, beneath))
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
        log = self.settings.folder / f"fork_server{self._servers}.log"
        return LinuxStarter(self.hub, self.settings, log, self.settings.preload)

    def _run_forked(self, job: Job, server: LinuxStarter) -> Attempt:
        port = ports.reserve()
        groups: list[WorkerGroup] = []
        try:
            orders = self.launcher.orders(job, self.papers(job), port.number)
            for order in orders:
                group = WorkerGroup(self.hub)
                group.process = server.fork(group.secret, order.log)
                groups.append(group)
            return Attempt(self.conduct(job, groups, orders, server), "forked")
        finally:
            port.release()
            for group in groups:
                group.drop()
