"""A column in the words of someone who looks for a machine like his own: `Windows · mpiexec · CPU, under Wine`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from conformance.hosts.mpi_library import TITLES
from conformance.matrix.lane import Lane
from conformance.model.record import Host

if TYPE_CHECKING:
    from reports.matrix import Column

INTEGRATIONS: Final[Mapping[str, str]] = {
    "reference": "reference integration",
    "deepspeed": "DeepSpeed alone",
    "lightning": "Lightning",
    "lightning-own": "Lightning, unchanged",
    "fabric": "Lightning Fabric",
    "accelerate": "Accelerate",
    "transformers": "Transformers",
}
"""Names of integrations as their users write them; any other is shown by its id."""
_SYSTEMS: Final = {"linux": "Linux", "windows": "Windows"}
_TRANSPORTS: Final = {"nccl": "NCCL", "mpi": "MPI transport"}
_VENDORS: Final[Mapping[str, str]] = {str(vendor): title for vendor, title in TITLES.items()}


def system(column: Column) -> str:
    """`Linux`, `Windows`: the system whose semantics the column is about."""
    host = column.latest.host
    name = host.os if host else column.key.lane.partition("_")[0]
    return _SYSTEMS.get(name, name)


def device(column: Column) -> str:
    """What computed: `CPU`, or the GPUs by name."""
    host = column.latest.host
    if host is None or not host.gpus or not _on_gpu(column, host):
        return "GPU" if column.transport == "nccl" else "CPU"
    names = dict.fromkeys(gpu.name for gpu in host.gpus)
    return ", ".join(f"{sum(gpu.name == name for gpu in host.gpus)} × {name}" for name in names)


def on_cpu(column: Column) -> bool:
    """Whether the column computed on a CPU."""
    return device(column) == "CPU"


def mpi(column: Column) -> str:
    """Whose MPI started the ranks: `Intel MPI`; empty where none did."""
    vendor = column.key.mpi.rpartition(" ")[0] or column.key.mpi
    return _VENDORS.get(vendor, vendor)


def integration(column: Column) -> str:
    """The integration's name as its users write it."""
    return INTEGRATIONS.get(column.key.integration, column.key.integration)


def version(column: Column, package: str = "deepspeed") -> str:
    """A package's version without its build; empty if unknown."""
    return column.latest.packages.get(package, "").partition("+")[0]


def where(column: Column, *, whose_mpi: bool = False) -> str:
    """`Linux · mpiexec · CPU`, `Windows · CPU, under Wine`.

    Args:
        whose_mpi: whether to name the MPI too.
    """
    vendor = mpi(column) if whose_mpi else ""
    started = (f"mpiexec ({vendor})" if vendor else "mpiexec") if column.launcher == "mpi" or column.key.mpi else ""
    carried = _TRANSPORTS.get(column.transport, "" if column.transport == "gloo" else column.transport)
    shown = "GPU" if not on_cpu(column) else "CPU"
    return " · ".join(filter(None, (system(column), started, carried, shown))) + (
        ", under Wine" if column.key.wine else ""
    )


def of_lane(lane: Lane) -> str:
    """A lane that nothing ran on, in the same words: `Linux · NCCL · GPU`."""
    started = "mpiexec" if lane.launcher == "mpi" else ""
    shown = "GPU" if lane.device == "cuda" else "CPU" if lane.device == "cpu" else ""
    carried = _TRANSPORTS.get(lane.transports[0], "")
    return " · ".join(filter(None, (_SYSTEMS[lane.os], started, carried, shown)))


def machine(column: Column) -> str:
    """The host in one line: processor, cores, memory, GPUs; empty if unknown."""
    host = column.latest.host
    if host is None:
        return ""
    parts = [host.cpu, f"{host.cpu_count} cores", f"{host.memory_bytes / (1 << 30):.0f} GiB"]
    if not on_cpu(column):
        parts.insert(0, device(column))
    return ", ".join(parts)


def capabilities(column: Column) -> dict[str, str]:
    """What a probe found that the host can do, by name, in words; empty for records of before there were probes."""
    host = column.latest.host
    found = host.capabilities if host else {}
    return {name.replace("_", " "): _told(name, value) for name, value in sorted(found.items())}


def lacks(column: Column) -> str:
    """The number types that the host is known not to compute in: `no fp16`; empty if none or unknown."""
    host = column.latest.host
    found = host.capabilities if host else {}
    return ", ".join(f"no {name}" for name in ("fp16", "bf16") if found.get(name) is False)


def _told(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes") and isinstance(value, int | float):
        return f"{value / (1 << 30):.1f} GiB"
    return str(value)


def _on_gpu(column: Column, host: Host) -> bool:
    accelerator = host.capabilities.get("accelerator")
    if accelerator is not None:
        return bool(accelerator != "cpu")
    # Records of before there were capabilities: a CPU build of torch computes on no GPU.
    return column.transport == "nccl" or not column.latest.packages.get("torch", "+cpu").endswith("+cpu")
