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

from conformance.hosts import bundles, mpi_library
from conformance.hosts.cuda import cuda_facts, cuda_of_torch
from conformance.hosts.ops.probe import probe_op
from conformance.model.record import GpuInfo
from conformance.model.verdict import NotRun

Probe = Callable[[str], None]
"""Takes what stands after the colon of its name; raises NotRun when the host lacks it."""

GIB = 1 << 30


def check(need: str) -> None:
    """Run the probe named by `need`, such as `gpus:2`.

    Raises:
        NotRun: this host lacks it; names it and the remedy.
        KeyError: there is no such probe.
    """
    name, _, argument = need.partition(":")
    PROBES[name](argument)


@functools.cache
def gpus() -> tuple[GpuInfo, ...]:
    """The NVIDIA GPUs that ranks may use, asked of nvidia-smi; CUDA_VISIBLE_DEVICES limits them by number."""
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
    visible = visible_devices(len(found))
    return tuple(found[int(index)] for index in visible if index.isdigit() and int(index) < len(found))


def visible_devices(count: int) -> list[str]:
    """What CUDA_VISIBLE_DEVICES lets this process use of `count` GPUs; all of them where it is unset."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        list(map(str, range(count)))
        if given is None
        else [index.strip() for index in given.split(",") if index.strip()]
    )


def _os(wanted: str) -> None:
    here = "windows" if sys.platform == "win32" else "linux" if sys.platform == "linux" else sys.platform
    if here != wanted:
        remedy = f"run this lane on a {wanted.capitalize()} host"
        if wanted == "windows" and here == "linux":
            remedy += ", or under Wine: nox -s wine"
        raise NotRun(f"{wanted.capitalize()} (this is {here.capitalize()})", remedy)


def _gpus(count: str) -> None:
    found = len(gpus())
    if found < int(count):
        raise NotRun(f"{count} GPUs, found {found}", "run on a host with that many NVIDIA GPUs visible")


def _module(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        raise NotRun(f"the Python package {name}", f"python -m pip install {name.replace('_', '-')}")


def _command(name: str) -> None:
    if shutil.which(name) is None:
        raise NotRun(f"the command {name}", f"install {name} and put it on PATH")


def _compiler(_: str) -> None:
    names = ("cl",) if sys.platform == "win32" else ("c++", "g++", "clang++")
    if not any(shutil.which(name) for name in names):
        remedy = "install Visual Studio Build Tools" if sys.platform == "win32" else "apt-get install g++"
        raise NotRun("a C++ compiler", remedy)


def _memory(gibibytes: str) -> None:
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


def _mpi(_: str) -> None:
    mpi()


def _cuda(_: str) -> None:
    if not gpus():
        raise NotRun("an NVIDIA GPU, found none", "run on a host with a GPU whose driver answers nvidia-smi")
    if cuda_of_torch() is None:
        remedy = "install a CUDA build of torch: python -m nox -s linux_nccl -- --torch-index URL"
        raise NotRun("a CUDA build of torch, found a CPU build", remedy)
    facts = cuda_facts()
    if facts.problem or not facts.count:
        raise NotRun(
            f"a GPU that torch can use ({facts.problem or 'torch.cuda.is_available() is False'})",
            "update the NVIDIA driver, or install a torch built for its CUDA version",
        )


def _nccl(_: str) -> None:
    if cuda_facts().nccl is None:
        raise NotRun("NCCL in torch, found none", "use torch's own CUDA build for Linux")


def _peers(count: str) -> None:
    wanted, peers = int(count), cuda_facts().peers
    if len(peers) < wanted or not all(all(row[:wanted]) for row in peers[:wanted]):
        raise NotRun(f"peer access between {wanted} GPUs", "run on a host whose GPUs share NVLink or a PCIe root")


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
    "op": probe_op,
    "export": bundles.probe_export,
    "import": bundles.probe_import,
}
