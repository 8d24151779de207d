"""Probes: whether this host has what a lane or a cell needs. None imports torch here: that would cost a run seconds."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable

import psutil

from conformance.hosts import mpi_library
from conformance.hosts.cuda import cuda_facts, cuda_of_torch
from conformance.hosts.ground import Ground
from conformance.hosts.ops.probe import probe_op
from conformance.model.record import GpuInfo
from conformance.model.verdict import NotRun

Probe = Callable[[str, Ground], None]
"""Takes what stands after the colon of its name, and what may be used; raises NotRun when that lacks it."""

GIB = 1 << 30


def check(need: str, ground: Ground | None = None) -> None:
    """Run the probe named by `need`, such as `gpus:2`.

    Args:
        ground: what may be used; None for all that every process may.

    Raises:
        NotRun: this host lacks it; names it and the remedy.
        KeyError: there is no such probe.
    """
    name, _, argument = need.partition(":")
    PROBES[name](argument, ground or Ground())


@functools.cache
def gpus(devices: tuple[str, ...] | None = None) -> tuple[GpuInfo, ...]:
    """The NVIDIA GPUs that ranks may use, asked of nvidia-smi.

    Args:
        devices: the only ones, by number; None takes CUDA_VISIBLE_DEVICES.
    """
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return ()
    query = [smi, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, timeout=20, check=True, encoding="utf-8", errors="replace")
    except (OSError, subprocess.SubprocessError):
        return ()
    found = []
    for line in answer.stdout.splitlines():
        name, _, mebibytes = line.rpartition(",")
        if mebibytes.strip().isdigit():
            found.append(GpuInfo(name=name.strip(), memory_bytes=int(mebibytes) << 20))
    visible = visible_devices(len(found)) if devices is None else devices
    return tuple(found[int(index)] for index in visible if index.isdigit() and int(index) < len(found))


def visible_devices(count: int) -> list[str]:
    """What CUDA_VISIBLE_DEVICES lets this process use of `count` GPUs; all of them where it is unset."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        list(map(str, range(count)))
        if given is None
        else [index.strip() for index in given.split(",") if index.strip()]
    )


def _os(wanted: str, _ground: Ground) -> None:
    here = "windows" if sys.platform == "win32" else "linux" if sys.platform == "linux" else sys.platform
    if here != wanted:
        remedy = f"run this lane on a {wanted.capitalize()} host"
        if wanted == "windows" and here == "linux":
            remedy += ", or under Wine: nox -s wine"
        raise NotRun(f"{wanted.capitalize()} (this is {here.capitalize()})", remedy)


def _gpus(count: str, ground: Ground) -> None:
    found = len(gpus(ground.devices))
    if found < int(count):
        raise NotRun(f"{count} GPUs, found {found}", "run on a host with that many NVIDIA GPUs visible")


def _module(name: str, _ground: Ground) -> None:
    if importlib.util.find_spec(name) is None:
        raise NotRun(f"the Python package {name}", f"python -m pip install {name.replace('_', '-')}")


def _command(name: str, _ground: Ground) -> None:
    if shutil.which(name) is None:
        raise NotRun(f"the command {name}", f"install {name} and put it on PATH")


def _compiler(_: str, _ground: Ground) -> None:
    names = ("cl",) if sys.platform == "win32" else ("c++", "g++", "clang++")
    if not any(shutil.which(name) for name in names):
        remedy = "install Visual Studio Build Tools" if sys.platform == "win32" else "apt-get install g++"
        raise NotRun("a C++ compiler", remedy)


def _memory(gibibytes: str, _ground: Ground) -> None:
    found = psutil.virtual_memory().total / GIB
    if found < float(gibibytes):
        raise NotRun(f"{gibibytes} GiB of memory, found {found:.0f}", "run on a larger host")


@functools.cache
def mpi() -> mpi_library.MpiLibrary:
    """The MPI that starts ranks; see `conformance.hosts.mpi_library`.

    Raises:
        NotRun: there is none.
        MpiError: mpiexec and the library that mpi4py loads do not go together.
    """
    return mpi_library.find()


def _mpi(_: str, _ground: Ground) -> None:
    mpi()


def _cuda(_: str, ground: Ground) -> None:
    if not gpus(ground.devices):
        raise NotRun("an NVIDIA GPU, found none", "run on a host with a GPU whose driver answers nvidia-smi")
    if cuda_of_torch() is None:
        remedy = "install a CUDA build of torch: python -m nox -s linux_nccl -- --torch-index URL"
        raise NotRun("a CUDA build of torch, found a CPU build", remedy)
    facts = cuda_facts(ground.devices)
    if facts.problem or not facts.count:
        raise NotRun(
            f"a GPU that torch can use ({facts.problem or 'torch.cuda.is_available() is False'})",
            "update the NVIDIA driver, or install a torch built for its CUDA version",
        )


def _nccl(_: str, ground: Ground) -> None:
    if cuda_facts(ground.devices).nccl is None:
        raise NotRun("NCCL in torch, found none", "use torch's own CUDA build for Linux")


def _peers(count: str, ground: Ground) -> None:
    wanted, peers = int(count), cuda_facts(ground.devices).peers
    if len(peers) < wanted or not all(all(row[:wanted]) for row in peers[:wanted]):
        raise NotRun(f"peer access between {wanted} GPUs", "run on a host whose GPUs share NVLink or a PCIe root")


def _export(_: str, ground: Ground) -> None:
    ground.bundles.of_this_run()


def _import(lane: str, ground: Ground) -> None:
    ground.bundles.of_lane(lane)


def _op(name: str, _ground: Ground) -> None:
    probe_op(name)


PROBES: dict[str, Probe] = {
    "os": _os,
    "gpus": _gpus,
    "cuda": _cuda,
    "mpi": _mpi,
    "nccl": _nccl,
    "peers": _peers,
    "module": _module,
    "command": _command,
    "compiler": _compiler,
    "memory": _memory,
    "op": _op,
    "export": _export,
    "import": _import,
}
