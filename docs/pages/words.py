"""Words for a published run, as all pages use them."""

from __future__ import annotations

from reports import places
from reports.matrix import Column


def where(column: Column) -> str:
    """`Windows · mpiexec (Intel MPI) · CPU, under Wine`."""
    return places.where(column, whose_mpi=True)


def version(column: Column, package: str = "deepspeed") -> str:
    """A package's version."""
    return places.version(column, package) or "unknown"


def day(column: Column) -> str:
    """The day on which its latest run started."""
    return column.latest.started[:10]
