"""A column of the matrix in the words of someone who looks for his own machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.hosts.mpi_library import TITLES
from reports.matrix import Column

_MPI: Final[Mapping[str, str]] = {**TITLES}
_SYSTEMS: Final = {"linux": "Linux", "windows": "Windows"}


def where(column: Column) -> str:
    """`Windows under Wine 8.0 · mpiexec (Intel MPI) · CPU`."""
    key, host = column.key, column.latest.host
    system = _SYSTEMS.get(host.os, host.os) if host else _SYSTEMS.get(key.lane.partition("_")[0], key.lane)
    wine = f" under Wine {key.wine}" if key.wine else ""
    vendor = key.mpi.rpartition(" ")[0] or key.mpi
    started = f"mpiexec ({_MPI.get(vendor, vendor)})" if column.launcher == "mpi" else ""
    carried = "" if key.transport == "gloo" else {"nccl": "NCCL", "mpi": "over MPI"}.get(key.transport, key.transport)
    return " · ".join(filter(None, (f"{system}{wine}", started, carried, device(column))))


def device(column: Column) -> str:
    """What computed: the GPUs that the host has, or its CPU."""
    host = column.latest.host
    names = dict.fromkeys(gpu.name for gpu in host.gpus) if host else {}
    return ", ".join(names) or "CPU"


def version(column: Column, package: str = "deepspeed") -> str:
    """A package's version, without the build."""
    return column.latest.packages.get(package, "unknown").partition("+")[0]


def day(column: Column) -> str:
    """The day on which its latest run started."""
    return column.latest.started[:10]
