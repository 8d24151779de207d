"""The port at which DeepSpeed's ranks meet where mpiexec started them."""

from __future__ import annotations

from conformance.ranks.pool import ports

_reserved: list[ports.Port] = []
"""Ports that this process holds until it ends."""


def agree_on_port() -> int:
    """A port that rank 0 reserves, the same in every rank; collective over MPI's world.

    Where MPI finds the ranks, DeepSpeed takes port 29500 unless told another, and on this host ranks of another cell
    may be listening there.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.Get_rank() == 0:
        _reserved.append(ports.reserve())
    return int(world.bcast(_reserved[-1].number if world.Get_rank() == 0 else None, root=0))
