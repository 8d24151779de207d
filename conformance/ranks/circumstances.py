"""What stays the same over all jobs of a pool of ranks, and what each rank is told because of it."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from conformance.ranks import channel, environment
from conformance.ranks.job import Job
from conformance.ranks.member import PRELOAD_VARIABLE
from conformance.ranks.messages import Order

PACKAGE_ROOT = Path(__file__).resolve().parents[2]
START = Path(__file__).with_name("start.py")


@dataclasses.dataclass(frozen=True)
class Circumstances:
    """What stays the same over all jobs of a pool.

    Attributes:
        python: the command that runs the interpreter of ranks.
        environment: what every process starts with, nothing of a launcher in it.
        preload: modules that ranks import ahead of their order.
        folder: an existing folder for the pool's own logs.
        passing: whether `folder` goes when the pool is closed.
    """

    python: tuple[str, ...]
    environment: dict[str, str]
    preload: tuple[str, ...]
    folder: Path
    passing: bool = False

    @property
    def rank_command(self) -> tuple[str, ...]:
        """The command that becomes a rank."""
        return (*self.python, "-P", str(START), "rank")

    def join(self, variables: dict[str, str], where: str) -> dict[str, str]:
        """`variables` and what a fresh interpreter needs to become a rank."""
        return {**variables, channel.JOIN_VARIABLE: where, PRELOAD_VARIABLE: ",".join(self.preload)}

    def orders(self, job: Job, papers: Path, port: int) -> list[Order]:
        """Each rank's part of a job with launcher `env`, its logs in `papers`, its rendezvous at `port`."""
        world = job.setting.world
        base = {"OMP_NUM_THREADS": "1", **self.environment}
        found = []
        for rank in range(world):
            variables = {**base, **environment.of_rank(rank, world, port)}
            found.append(
                Order(
                    scenario=job.scenario,
                    setting=dataclasses.replace(job.setting, rank=rank),
                    environment=environment.overlaid(variables, job.environment),
                    roots=roots(),
                    log=papers / f"rank{rank}.log",
                    stacks=papers / f"rank{rank}.stacks",
                    deadline=job.deadline,
                )
            )
        return found


def roots() -> tuple[str, ...]:
    """The folders that this process imports from, less those of its interpreter: where ranks find scenarios too."""
    own = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    found = [str(PACKAGE_ROOT)]
    for entry in sys.path:
        path = Path(entry or ".").resolve()
        is_own = any(path.is_relative_to(prefix) for prefix in own) or path.suffix == ".zip"
        if path.is_dir() and not is_own and str(path) not in found:
            found.append(str(path))
    return tuple(found)
