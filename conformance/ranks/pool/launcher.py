"""The two ways in which ranks learn who they are: from their environment, or from mpiexec."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from conformance.hosts.mpi_deaths import parse_deaths
from conformance.hosts.mpi_library import MpiLibrary, launch_command
from conformance.ranks.job import Job
from conformance.ranks.pool.hub import Hub, Starter
from conformance.ranks.pool.settings import PoolSettings, roots
from conformance.ranks.pool.variables import of_rank, overlaid
from conformance.ranks.pool.worker_group import WorkerGroup
from conformance.ranks.protocol.invitation import Invitation
from conformance.ranks.protocol.messages import Order

Variables = Mapping[str, str | None]


class Launcher(Protocol):
    """Starts processes that can be ranks, and tells each what it must know."""

    def together(self, world: int) -> int:
        """How many of a job's `world` ranks must be started at once, in one group; divides `world`."""
        ...

    def start(
        self, hub: Hub, starter: Starter, size: int, variables: Variables, folder: Path, log: Path
    ) -> WorkerGroup:
        """Start a group of `size` with `variables` over those of the settings."""
        ...

    def orders(self, job: Job, papers: Path, port: int) -> list[Order]:
        """Each rank's part of a job, its logs in `papers`, with `port` reserved for its rendezvous."""
        ...


@dataclasses.dataclass(frozen=True)
class FromEnvironment:
    """Launcher `env`: any process can become any rank, as its order says.

    Attributes:
        settings: of the pool.
        beneath: variables that orders set first.
    """

    settings: PoolSettings
    beneath: Variables = dataclasses.field(default_factory=dict)

    def together(self, world: int) -> int:
        """Each process is a group."""
        return 1

    def start(
        self, hub: Hub, starter: Starter, size: int, variables: Variables, folder: Path, log: Path
    ) -> WorkerGroup:
        """Start one interpreter."""
        group = WorkerGroup(hub)
        command = self.settings.rank_command
        group.process = starter.spawn(command, _environment(self.settings, hub, group, variables), folder, log)
        return group

    def orders(self, job: Job, papers: Path, port: int) -> list[Order]:
        """Parts with RANK, WORLD_SIZE and the rest."""
        world = job.setting.world
        return [
            _order(job, papers, rank, rank, {**self.beneath, **of_rank(rank, world, port)}) for rank in range(world)
        ]


@dataclasses.dataclass(frozen=True)
class FromMpi:
    """Launcher `mpi`: mpiexec starts a whole world and numbers it; nothing of ours tells a rank who it is."""

    settings: PoolSettings
    mpi: MpiLibrary

    def together(self, world: int) -> int:
        """The whole world is a group."""
        return world

    def start(
        self, hub: Hub, starter: Starter, size: int, variables: Variables, folder: Path, log: Path
    ) -> WorkerGroup:
        """Start mpiexec."""
        group = WorkerGroup(hub, size, self._deaths)
        command = launch_command(self.mpi, size, self.settings.rank_command)
        group.process = starter.spawn(command, _environment(self.settings, hub, group, variables), folder, log)
        return group

    def orders(self, job: Job, papers: Path, port: int) -> list[Order]:
        """Parts that leave it to MPI to say which rank is which."""
        return [_order(job, papers, rank, None, {}) for rank in range(job.setting.world)]

    def _deaths(self, output: str) -> dict[int, int]:
        deaths = parse_deaths(self.mpi.vendor, output)
        return {death.rank: code for death in deaths if (code := death.exit_code) is not None}


def _environment(settings: PoolSettings, hub: Hub, group: WorkerGroup, variables: Variables) -> dict[str, str]:
    invitation = Invitation(hub.listener.port, group.secret, roots(), settings.preload)
    base = {"OMP_NUM_THREADS": "1", **settings.environment}
    return {**overlaid(base, variables), **invitation.variable()}


def _order(job: Job, papers: Path, rank: int, told: int | None, variables: Variables) -> Order:
    return Order(
        scenario=job.scenario,
        setting=dataclasses.replace(job.setting, rank=told),
        environment={**variables, **job.environment},
        roots=roots(),
        log=papers / f"rank{rank}.log",
        stacks=papers / f"rank{rank}.stacks",
        deadline=job.deadline,
    )
