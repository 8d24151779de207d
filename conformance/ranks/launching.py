"""The two ways in which ranks learn who they are: from their environment, or from mpiexec."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from conformance.lanes.mpi_deaths import parse_deaths
from conformance.lanes.mpi_library import MpiLibrary, launch_command
from conformance.ranks import environment
from conformance.ranks.circumstances import Circumstances, roots
from conformance.ranks.crew import Crew
from conformance.ranks.hub import Hub, Starter
from conformance.ranks.invitation import Invitation
from conformance.ranks.job import Job
from conformance.ranks.messages import Order

Variables = Mapping[str, str | None]


class Launcher(Protocol):
    """Starts processes that can be ranks, and tells each what it must know."""

    def together(self, world: int) -> int:
        """How many of a job's `world` ranks must be started at once, in one crew; divides `world`."""
        ...

    def start(self, hub: Hub, starter: Starter, size: int, variables: Variables, folder: Path, log: Path) -> Crew:
        """Start a crew of `size` with `variables` over those of the circumstances."""
        ...

    def orders(self, job: Job, papers: Path, port: int) -> list[Order]:
        """Each rank's part of a job, its logs in `papers`, with `port` reserved for its rendezvous."""
        ...


@dataclasses.dataclass(frozen=True)
class FromEnvironment:
    """Launcher `env`: any process can become any rank, as its order says.

    Attributes:
        circumstances: of the pool.
        beneath: variables that orders set first.
    """

    circumstances: Circumstances
    beneath: Variables = dataclasses.field(default_factory=dict)

    def together(self, world: int) -> int:
        """Each process is a crew."""
        return 1

    def start(self, hub: Hub, starter: Starter, size: int, variables: Variables, folder: Path, log: Path) -> Crew:
        """Start one interpreter."""
        crew = Crew(hub)
        command = self.circumstances.rank_command
        crew.process = starter.spawn(command, _environment(self.circumstances, hub, crew, variables), folder, log)
        return crew

    def orders(self, job: Job, papers: Path, port: int) -> list[Order]:
        """Parts with RANK, WORLD_SIZE and the rest."""
        world = job.setting.world
        return [
            _order(job, papers, rank, rank, {**self.beneath, **environment.of_rank(rank, world, port)})
            for rank in range(world)
        ]


@dataclasses.dataclass(frozen=True)
class FromMpi:
    """Launcher `mpi`: mpiexec starts a whole world and numbers it; nothing of ours tells a rank who it is."""

    circumstances: Circumstances
    mpi: MpiLibrary

    def together(self, world: int) -> int:
        """The whole world is a crew."""
        return world

    def start(self, hub: Hub, starter: Starter, size: int, variables: Variables, folder: Path, log: Path) -> Crew:
        """Start mpiexec."""
        crew = Crew(hub, size, self._deaths)
        command = launch_command(self.mpi, size, self.circumstances.rank_command)
        crew.process = starter.spawn(command, _environment(self.circumstances, hub, crew, variables), folder, log)
        return crew

    def orders(self, job: Job, papers: Path, port: int) -> list[Order]:
        """Parts that leave it to MPI to say which rank is which."""
        return [_order(job, papers, rank, None, {}) for rank in range(job.setting.world)]

    def _deaths(self, output: str) -> dict[int, int]:
        deaths = parse_deaths(self.mpi.vendor, output)
        return {death.rank: code for death in deaths if (code := death.exit_code) is not None}


def _environment(circumstances: Circumstances, hub: Hub, crew: Crew, variables: Variables) -> dict[str, str]:
    invitation = Invitation(hub.door.port, crew.secret, roots(), circumstances.preload)
    base = {"OMP_NUM_THREADS": "1", **circumstances.environment}
    return {**environment.overlaid(base, variables), **invitation.variable()}


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
