"""What carries the collectives: gloo, nccl, or MPI through mpi4py.

`deepspeed.initialize` takes no backend. It asks its accelerator for a default, which is nccl wherever there is CUDA on
Linux; on a CPU it is ccl when oneCCL happens to be importable. Only an earlier
`deepspeed.init_distributed(dist_backend=…)` decides otherwise, so the choice is made here, before.
"""

from __future__ import annotations

import dataclasses
import sys

from conformance.reference.discovery import import_mpi
from conformance.reference.errors import TransportError
from conformance.reference.topology import Topology

TRANSPORTS = ("gloo", "nccl", "mpi")


@dataclasses.dataclass(frozen=True)
class Ground:
    """What this process has to build on.

    Attributes:
        platform: sys.platform.
        device: the kind of device that DeepSpeed will use: `cpu`, `cuda`, `xpu`, …
        backends: those of torch's backends that its build has, of gloo and nccl.
        default: the backend that DeepSpeed would take by itself.
    """

    platform: str
    device: str
    backends: frozenset[str]
    default: str

    @classmethod
    def here(cls) -> Ground:
        """The ground of this process.

        Raises:
            TransportError: torch was built without torch.distributed.
        """
        import torch.distributed
        from deepspeed.accelerator import get_accelerator

        if not torch.distributed.is_available():
            raise TransportError(
                "torch",
                f"{torch.__version__}, built without torch.distributed",
                "a build with it",
                "install one of PyTorch's own wheels",
            )
        has = {"gloo": torch.distributed.is_gloo_available(), "nccl": torch.distributed.is_nccl_available()}
        accelerator = get_accelerator()
        return cls(
            sys.platform,
            accelerator.device_name(),
            frozenset(name for name, available in has.items() if available),
            accelerator.communication_backend_name(),
        )


def choose_transport(asked: str, ground: Ground) -> str:
    """The transport to use: what was asked for, or what fits where `auto` was.

    `auto` is nccl for CUDA on Linux, gloo on CPUs and on Windows, and DeepSpeed's default for other devices.

    Raises:
        TransportError: it is unknown, or cannot be had here.
    """
    if asked == "auto":
        if ground.device == "cuda" and "nccl" in ground.backends:
            return "nccl"
        return "gloo" if ground.device in ("cpu", "cuda") else ground.default
    if asked not in TRANSPORTS:
        raise TransportError(
            "transport", repr(asked), f"one of auto, {', '.join(TRANSPORTS)}", "name one of these, or leave it out"
        )
    if asked == "nccl" and ground.platform == "win32":
        raise TransportError(
            "transport",
            "'nccl' on Windows",
            "gloo or mpi: PyTorch's Windows builds have no NCCL",
            "pass transport='gloo', which carries CUDA tensors too, or 'mpi'",
        )
    if asked in ("gloo", "nccl") and asked not in ground.backends:
        raise TransportError(
            "transport",
            f"{asked!r}, which this build of torch does not have",
            f"one that it has: {_list(ground)}",
            f"pass one of these, or install a build of torch with {asked}",
        )
    if asked == "nccl" and ground.device != "cuda":
        raise TransportError(
            "transport",
            f"'nccl' for device {ground.device}",
            "CUDA devices, the only ones that NCCL carries",
            "pass transport='gloo', or see to it that CUDA is found (nvidia-smi; CUDA_VISIBLE_DEVICES; DS_ACCELERATOR)",
        )
    if asked == "mpi" and ground.device != "cpu":
        raise TransportError(
            "transport",
            f"'mpi' for device {ground.device}",
            "CPU tensors, the only ones that it carries",
            "pass transport='gloo' or 'nccl', or set DS_ACCELERATOR=cpu",
        )
    return asked


def make_ready(transport: str, topology: Topology) -> str:
    """See to it that torch knows the transport; the name of torch's backend for it.

    Raises:
        MpiError: `mpi` was chosen and mpi4py or an MPI library is missing.
        TransportError: `mpi` was chosen and MPI's world does not hold the job.
    """
    if transport != "mpi":
        return transport
    world = import_mpi().COMM_WORLD
    if world.Get_size() < topology.world_size:
        raise TransportError(
            "transport",
            f"'mpi' for a job of {topology.world_size} ranks, of which MPI's world holds {world.Get_size()}",
            "all of them",
            "start the ranks with mpiexec, or pass transport='gloo'",
        )
    from conformance.reference import mpi_transport

    return mpi_transport.register()


def _list(ground: Ground) -> str:
    return ", ".join(sorted(ground.backends)) or "none"
