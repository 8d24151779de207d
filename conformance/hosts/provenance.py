"""Where records come from: host, versions, sources, environment."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

from conformance.hosts.inherited import of_outer_job
from conformance.hosts.probes import gpus
from conformance.model.record import Host, Provenance

ROOT = Path(__file__).resolve().parents[2]

RELEVANT_PREFIXES = (
    "DS_",
    "DEEPSPEED_",
    "TORCH_",
    "ATEN_",
    "ONEDNN_",
    "DNNL_",
    "NCCL_",
    "GLOO_",
    "OMP_",
    "CUDA_",
    "I_MPI_",
    "FI_",
    "UCX_",
    "MPICH_",
    "OMPI_MCA_",
    "MPI4PY_",
    "CONFORMANCE_",
)
RELEVANT = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "USE_LIBUV", "WINEDLLOVERRIDES"}
)


def wine_version() -> str | None:
    """The version of Wine that this process runs under; None anywhere else."""
    if sys.platform != "win32":
        return None
    import ctypes

    try:
        get_version = ctypes.WinDLL("ntdll").wine_get_version
    except (AttributeError, OSError):
        return None
    get_version.restype = ctypes.c_char_p
    return str(get_version().decode("ascii"))


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """The installed version of each distribution in `names`, those absent left out."""
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def collect(
    packages: Iterable[str],
    *,
    host_class: str | None,
    mpi: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Provenance:
    """The provenance of a run that starts now.

    Args:
        packages: distribution names whose versions count.
        host_class: what the user calls this kind of host; None makes it `ci` or `local`.
        mpi: vendor and version of the MPI that starts ranks.
    """
    commit, dirty = sources()
    return Provenance(
        run=uuid.uuid4().hex[:12],
        host=Host(
            host_class=host_class or ("ci" if environ.get("CI") else "local"),
            os="windows" if sys.platform == "win32" else sys.platform,
            os_version=_os_version(),
            machine=platform.machine(),
            cpu=_cpu(),
            cpu_count=os.cpu_count() or 1,
            memory_bytes=psutil.virtual_memory().total,
            gpus=gpus(),
            wine=wine_version(),
        ),
        python=platform.python_version(),
        packages=installed_versions(packages),
        git_commit=commit,
        git_dirty=dirty,
        mpi=mpi,
        environment={
            name: value
            for name, value in sorted(environ.items())
            if name in RELEVANT or name.startswith(RELEVANT_PREFIXES)
        },
        outer_job=of_outer_job(environ),
        ci_url=_ci_url(environ),
    )


def sources() -> tuple[str | None, bool | None]:
    """The commit and whether tracked files differ from it; (None, None) outside a checkout or without git.

    Under Wine there is no git: the caller of the Windows process hands the answer on in CONFORMANCE_GIT_COMMIT, with
    a trailing `+` for a dirty tree.
    """
    given = os.environ.get("CONFORMANCE_GIT_COMMIT")
    if given:
        return given.removesuffix("+"), given.endswith("+")
    try:
        commit = _git_answer("rev-parse", "HEAD")
        return commit, bool(_git_answer("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git_answer(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, check=True, timeout=20, encoding="utf-8").stdout.strip()


def _os_version() -> str:
    if sys.platform == "win32":
        return f"Windows {platform.version()}"
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    return f"{name}, kernel {platform.release()}"


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _ci_url(environ: Mapping[str, str]) -> str | None:
    try:
        return f"{environ['GITHUB_SERVER_URL']}/{environ['GITHUB_REPOSITORY']}/actions/runs/{environ['GITHUB_RUN_ID']}"
    except KeyError:
        return None
