"""Who is this process: its rank, the size of the job, and where the ranks meet.

Three ways to know, tried in this order:

1. The environment says all of it: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun, the
   `deepspeed` launcher and cluster agents set them (launcher `env`).
2. mpiexec started the process: MPI says it, through mpi4py (launcher `mpi`).
3. Nothing started it, or what did says that it is a job of one and MPI cannot be asked: it is the only one (launcher
   `none`).

What lies between is refused. DeepSpeed's own discovery takes an incomplete environment for a job of MPI ranks, and
without mpiexec every process then finds a world of one and trains alone, silently.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

from conformance.reference.discovery import Job, discover, import_mpi, job_of, running_mpi
from conformance.reference.errors import MpiError, TopologyError
from conformance.reference.variables import address, integer, is_host

Launcher = Literal["env", "mpi", "none", "adopted"]
"""`adopted`: torch.distributed was already up, and said who is who."""

IDENTITY = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
MEETING_PLACE = ("MASTER_ADDR", "MASTER_PORT")
VARIABLES = IDENTITY + MEETING_PLACE
"""The five variables that DeepSpeed reads; with all of them set, it looks no further."""

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Topology:
    """One process's place in a job.

    Attributes:
        rank: this process among all, 0 … world_size - 1.
        world_size: the number of processes in the job.
        local_rank: this process among those of its host; the index of the device that DeepSpeed gives it.
        local_size: the number of processes on this host; None where the launcher did not say.
        master_addr: name or address of rank 0's host; None only for `adopted`, where nobody needs it any more.
        master_port: port that rank 0 listens on. None until the ranks meet, where nothing fixes it: rank 0 then listens
            on a port of its own and tells the others, so that two jobs on a host cannot collide.
        launcher: how the process learned all this.

    Raises:
        TopologyError: a value is out of range.
    """

    rank: int
    world_size: int
    local_rank: int
    local_size: int | None
    master_addr: str | None
    master_port: int | None
    launcher: Launcher

    def __post_init__(self) -> None:
        def refuse(subject: str, found: object, expected: str) -> TopologyError:
            return TopologyError(
                subject, repr(found), expected, "correct what starts the ranks, or the Topology passed"
            )

        if self.world_size < 1:
            raise refuse("WORLD_SIZE", self.world_size, "an integer of at least 1")
        if not 0 <= self.rank < self.world_size:
            raise refuse("RANK", self.rank, f"0 to {self.world_size - 1}, as WORLD_SIZE is {self.world_size}")
        if self.local_size is not None and not 1 <= self.local_size <= self.world_size:
            raise refuse("LOCAL_WORLD_SIZE", self.local_size, f"1 to {self.world_size}, the size of the whole job")
        local_size = self.world_size if self.local_size is None else self.local_size
        if not 0 <= self.local_rank < local_size:
            raise refuse("LOCAL_RANK", self.local_rank, f"0 to {local_size - 1}, for {local_size} ranks on this host")
        if self.master_port is not None and not 1 <= self.master_port <= 65535:
            raise refuse("MASTER_PORT", self.master_port, "a port, 1 to 65535")
        if self.master_addr is not None and not self.master_addr.strip():
            raise refuse("MASTER_ADDR", self.master_addr, "the name or address of rank 0's host")
        if self.master_addr is not None and not is_host(self.master_addr):
            # torch would look it up again and again, until the timeout and beyond.
            raise refuse("MASTER_ADDR", self.master_addr, "a name or an address alone: node0, 10.0.0.1, fe80::1")
        if self.launcher == "env" and (self.master_addr is None or self.master_port is None):
            raise refuse("MASTER_ADDR, MASTER_PORT", (self.master_addr, self.master_port), "both, from launcher `env`")
        if self.launcher in ("mpi", "none") and self.master_addr is None:
            raise refuse("MASTER_ADDR", self.master_addr, "the name or address of rank 0's host")

    @classmethod
    def alone(cls) -> Topology:
        """A job of one process, whatever the environment says: for a notebook, or one task of a larger allocation."""
        return cls(0, 1, 0, 1, "127.0.0.1", None, "none")

    def environment(self) -> dict[str, str]:
        """The variables that DeepSpeed reads, as text; without those that are None here."""
        values = (self.rank, self.world_size, self.local_rank, self.master_addr, self.master_port)
        return {name: str(value) for name, value in zip(VARIABLES, values, strict=True) if value is not None}


def find_topology(environ: Mapping[str, str] | None = None, *, mpi: Callable[[], Any] = import_mpi) -> Topology:
    """This process's place in its job.

    Under mpiexec this is a collective call: every rank makes it, and when the environment of one rank contradicts MPI,
    all of them raise, so that none is left waiting.

    Args:
        environ: the environment to read; os.environ by default.
        mpi: what gives `mpi4py.MPI`; called only in a process that mpiexec started.

    Raises:
        TopologyError: the environment is incomplete, contradicts itself or MPI, or holds a value out of range.
        MpiError: mpiexec started this process among others, and MPI cannot be used.
    """
    environ = os.environ if environ is None else environ
    missing = [name for name in VARIABLES if name not in environ]
    job = job_of(environ)
    if not missing:
        return _from_environment(environ, job)
    stated = [name for name in IDENTITY if name in environ]
    if job is not None or _world_is_up():
        try:
            module = mpi()
        except MpiError:
            if job is None or job.size != 1 or stated:
                raise
            return Topology.alone()  # one task, as srun starts it: there is nobody to ask MPI about
        place = discover(environ, job, module)
        return Topology(
            place.rank, place.world_size, place.local_rank, place.local_size, place.address, place.port, "mpi"
        )
    if stated:
        raise TopologyError(
            ", ".join(missing),
            f"nothing, while {_show(environ, stated)} and no mpiexec started this process",
            f"all of {', '.join(VARIABLES)}, or none of {', '.join(IDENTITY)}",
            "start the ranks with torchrun, deepspeed or mpiexec; or set what is missing; or unset "
            f"{', '.join(stated)} to train alone (DeepSpeed would let each rank train alone and say nothing)",
        )
    _refuse_unlaunched_tasks(environ)
    ignored = [name for name in MEETING_PLACE if name in environ]
    if ignored:
        _LOG.warning("%s without RANK and WORLD_SIZE: this process trains alone", _show(environ, ignored))
    return Topology.alone()


def adopt_topology(rank: int, world_size: int, environ: Mapping[str, str] | None = None) -> Topology:
    """The place of a process whose torch.distributed is already up.

    Args:
        rank: torch.distributed's rank.
        world_size: torch.distributed's world size.
        environ: the environment to read the rest from; os.environ by default.

    Raises:
        TopologyError: the environment contradicts torch.distributed, or nothing says which local rank this is.
    """
    environ = os.environ if environ is None else environ
    for name, value in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if name in environ and integer(environ, name, low=0) != value:
            raise TopologyError(
                name,
                f"{environ[name]}, while torch.distributed is already up as rank {rank} of {world_size}",
                f"{value}, or {name} unset",
                "start torch.distributed from the same variables, or unset them before",
            )
    if all(name in environ for name in VARIABLES):
        return _from_environment(environ, None)
    for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"):
        if name in environ:
            local_rank = integer(environ, name, low=0)
            break
    else:
        if world_size > 1:
            raise TopologyError(
                "LOCAL_RANK",
                f"nothing, while torch.distributed is already up as rank {rank} of {world_size}",
                "this process's number among those of its host, which DeepSpeed takes for its device",
                "set LOCAL_RANK in each rank before the call, or pass topology=Topology(…)",
            )
        local_rank = 0
    _refuse_ompi_conflict(environ, local_rank)
    return Topology(rank, world_size, local_rank, _local_size(environ), None, None, "adopted")


def _from_environment(environ: Mapping[str, str], job: Job | None) -> Topology:
    """A complete environment, checked against the MPI job that it may be part of."""
    rank, world_size = integer(environ, "RANK", low=0), integer(environ, "WORLD_SIZE", low=1)
    local_rank = integer(environ, "LOCAL_RANK", low=0)
    # torchrun may be started by mpiexec, once a host: its children inherit variables that speak of torchrun itself.
    if job is not None and "TORCHELASTIC_RUN_ID" not in environ:
        for name, value, theirs, stated in (
            ("WORLD_SIZE", world_size, job.size_name, job.size),
            ("RANK", rank, job.rank_name, job.rank),
        ):
            if stated is not None and stated != value:
                raise TopologyError(
                    name,
                    f"{value}, while mpiexec's {theirs} is {stated}",
                    "one answer from both",
                    f"unset {', '.join(VARIABLES)} to take MPI's ranks, or do not start this job with mpiexec",
                )
    _refuse_ompi_conflict(environ, local_rank)
    return Topology(
        rank,
        world_size,
        local_rank,
        _local_size(environ),
        address(environ, "MASTER_ADDR"),
        integer(environ, "MASTER_PORT", low=1),
        "env",
    )


def _local_size(environ: Mapping[str, str]) -> int | None:
    """torchrun says LOCAL_WORLD_SIZE, DeepSpeed's launcher LOCAL_SIZE; the other launchers say nothing."""
    for name in ("LOCAL_WORLD_SIZE", "LOCAL_SIZE"):
        if name in environ:
            return integer(environ, name, low=1)
    return None


def _refuse_ompi_conflict(environ: Mapping[str, str], local_rank: int) -> None:
    """DeepSpeed asserts that Open MPI's local rank is LOCAL_RANK, but only after the ranks have met."""
    name = "OMPI_COMM_WORLD_LOCAL_RANK"
    if name in environ and integer(environ, name, low=0) != local_rank:
        raise TopologyError(
            "LOCAL_RANK",
            f"{local_rank}, while {name} is {environ[name]}",
            "one answer from both: DeepSpeed refuses a conflict",
            f"unset LOCAL_RANK to take Open MPI's, or unset {name} where Open MPI did not start these ranks",
        )


def _refuse_unlaunched_tasks(environ: Mapping[str, str]) -> None:
    """Slurm numbers its tasks in variables of its own; that several were asked for and none was told is a mistake."""
    # The step's size is that of the srun around this process; the job's is all that a batch script sees.
    name = next((name for name in ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS") if name in environ), None)
    if name is None or integer(environ, name, low=1) == 1:
        return
    raise TopologyError(
        name,
        f"{environ[name]} tasks, but none of {', '.join(IDENTITY)}",
        "ranks for these tasks, or a job of one task",
        "start the tasks with torchrun, or with srun --mpi=pmi2 or mpiexec and mpi4py; or set RANK=$SLURM_PROCID "
        "WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID, MASTER_ADDR and MASTER_PORT in each task; or pass "
        "topology=Topology.alone() to train alone on purpose",
    )


def _world_is_up() -> bool:
    """Whether the caller already runs MPI with others."""
    module = running_mpi()
    return module is not None and module.COMM_WORLD.Get_size() > 1


def _show(environ: Mapping[str, str], names: list[str]) -> str:
    return " and ".join(f"{name}={environ[name]}" for name in names)
