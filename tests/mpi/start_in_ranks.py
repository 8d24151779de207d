"""What the ranks of test_mpi_start.py run. Usage: start_in_ranks.py env|strangers FOLDER"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from conformance.reference import MpiError, mpi_transport


def env() -> None:
    """torch's ranks are MPI's in the reverse order; the variables say so, and rank 0's store is met as usual."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rank = world.size - 1 - world.rank
    store = dist.FileStore(sys.argv[2] + "/store", world.size)
    dist.init_process_group("mpi4py", store=store, rank=rank, world_size=world.size)
    everybody: list[object] = [None] * world.size
    dist.all_gather_object(everybody, (rank, world.rank))
    assert everybody == [(each, world.size - 1 - each) for each in range(world.size)], everybody
    part = dist.new_group([0, 1], backend="gloo")
    mixed = dist.new_group([0, 1], backend="cpu:mpi4py")
    for group in (part, mixed):
        tensor = torch.tensor([float(rank)])
        dist.broadcast(tensor, 1, group=group)
        assert tensor.item() == 1
    dist.destroy_process_group()
    # A second life in the same process, with the default group on another backend.
    dist.init_process_group("gloo", init_method="mpi://")
    assert dist.get_rank() == world.rank
    group = dist.new_group(backend="mpi4py")
    tensor = torch.tensor([float(world.rank)])
    dist.all_reduce(tensor, group=group)
    assert tensor.item() == sum(range(world.size))
    dist.destroy_process_group()


def strangers() -> None:
    """Two processes that nothing but their variables joins: each is the only rank of an MPI world of its own.

    Afterwards MPI is finalised, and then no group can be made at all.
    """
    from mpi4py import MPI

    store = dist.FileStore(sys.argv[2] + "/store", 2)
    try:
        dist.init_process_group("mpi4py", store=store, rank=int(os.environ["RANK"]), world_size=2)
    except MpiError as error:
        print(error)
    else:
        raise AssertionError("two worlds were taken for one")
    MPI.Finalize()
    own = dist.FileStore(f"{sys.argv[2]}/own{os.environ['RANK']}", 1)
    try:
        dist.init_process_group("mpi4py", store=own, rank=0, world_size=1)
    except MpiError as error:
        print(error)
    else:
        raise AssertionError("MPI is over")


if __name__ == "__main__":
    torch.set_num_threads(1)
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    mpi_transport.register()
    {"env": env, "strangers": strangers}[sys.argv[1]]()
