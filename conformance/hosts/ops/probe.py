"""Whether one of DeepSpeed's compiled ops is there, without importing torch or DeepSpeed, or building anything."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from conformance.hosts.cuda import cuda_of_torch
from conformance.hosts.ops import lock
from conformance.model.verdict import NotRun

LIBRARIES = {"async_io": "libaio-dev"}
"""What ops need beside a compiler, as Debian and Ubuntu call it."""

LINUX_ONLY = frozenset({"async_io", "pin_memory"})
"""Ops that DeepSpeed has no source of for Windows."""

LOADING = 60.0
"""Seconds for which a rank that loads an op may hold its lock."""


def probe_op(name: str) -> None:
    """Raise NotRun unless the op was built ahead: into the installed DeepSpeed, or in torch's cache of extensions.

    An op that is not there would be compiled by the ranks themselves, all at once, for minutes.

    Args:
        name: as DeepSpeed calls it, such as `cpu_adam`.
    """
    if name in installed_ops():
        return
    remedy = "build it ahead: python -m nox -s ops"
    if name in LINUX_ONLY and sys.platform == "win32":
        remedy = "run it on a Linux lane: Windows has no such op"
    elif name in LIBRARIES:
        remedy = f"apt-get install {LIBRARIES[name]}, then {remedy}"
    folder = cached(name)
    if folder is None:
        raise NotRun(f"DeepSpeed's op {name}", remedy)
    # A rank takes the lock of an op, and of those that it needs, whenever it loads one. A rank that was killed then
    # leaves it, and all later ones would wait for ever.
    for old in folder.parent.glob("*/lock"):
        if lock.is_stale(old, LOADING):
            lock.remove(old)
    if (folder / "lock").exists() and lock.is_building(folder):
        raise NotRun(f"DeepSpeed's op {name}, which is being built", "wait for that to end")
    # torch asks ninja whether the cached build is current, and DeepSpeed asks the compiler what it is.
    for command in ("ninja", "cl" if sys.platform == "win32" else "c++"):
        if shutil.which(command) is None:
            raise NotRun(f"the command {command}, without which a built op is not loaded", f"put {command} on PATH")
    if not is_current(folder):
        raise NotRun(f"DeepSpeed's op {name}, whose build in {folder} is not current", remedy)


def is_current(folder: Path) -> bool:
    """Whether ninja would compile nothing if a rank loaded the op now. It would after a build that was cut short, and
    where another version of torch or DeepSpeed has built in the same place."""
    ninja = shutil.which("ninja")
    if ninja is None or not (folder / "build.ninja").exists():
        return True
    try:
        told = subprocess.run([ninja, "-n"], cwd=folder, capture_output=True, encoding="utf-8", timeout=60)
    except (OSError, subprocess.SubprocessError):
        return False
    return "no work to do" in told.stdout


def installed_ops() -> frozenset[str]:
    """The ops that were built when DeepSpeed was installed (DS_BUILD_OPS=1)."""
    spec = importlib.util.find_spec("deepspeed")
    if spec is None or not spec.submodule_search_locations:
        return frozenset()
    file = Path(next(iter(spec.submodule_search_locations))) / "git_version_info_installed.py"
    if not file.exists():
        return frozenset()
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "installed_ops":
            ops: Mapping[str, bool] = ast.literal_eval(statement.value)
            return frozenset(name for name, built in ops.items() if built)
    return frozenset()


def cached(name: str) -> Path | None:
    """The folder of the op's library in torch's cache, or None."""
    library = f"{name}.pyd" if sys.platform == "win32" else f"{name}.so"
    for root in _roots():
        if (root / name / library).exists():
            return root / name
    return None


def cache() -> Path:
    """Where torch puts the ops that are built here: below TORCH_EXTENSIONS_DIR an op by its name, in the default place
    in a folder for the Python and CUDA versions."""
    given = os.environ.get("TORCH_EXTENSIONS_DIR")
    if given:
        return Path(given)
    cuda = cuda_of_torch()
    torch = "cpu" if cuda is None else f"cu{cuda.replace('.', '')}"
    return _default() / f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}_{torch}"


def _roots() -> list[Path]:
    given = os.environ.get("TORCH_EXTENSIONS_DIR")
    return [Path(given)] if given else sorted(_default().glob(f"py{sys.version_info.major}{sys.version_info.minor}*_*"))


def _default() -> Path:
    if sys.platform == "win32":
        local = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local"))
        return local / "torch_extensions" / "torch_extensions" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "torch_extensions"
