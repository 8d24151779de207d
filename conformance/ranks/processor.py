"""Asking only once which processor this is."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from pathlib import Path
from typing import Any


def remember() -> None:
    """Make py-cpuinfo answer from memory after the first time, if DeepSpeed's imports brought it.

    DeepSpeed asks it twice for each op that it loads, and each time it runs an interpreter for some seconds.
    """
    try:
        cpuinfo: Any = importlib.import_module("cpuinfo.cpuinfo")
    except ImportError:
        return
    if not hasattr(cpuinfo.get_cpu_info_json, "cache_info"):
        cpuinfo.get_cpu_info_json = functools.cache(cpuinfo.get_cpu_info_json)


def ask_ahead() -> None:
    """Ask now, for all processes forked later, where an op that will want to know has been built."""
    cpuinfo = sys.modules.get("cpuinfo.cpuinfo")
    extension = sys.modules.get("torch.utils.cpp_extension")
    if cpuinfo is None or extension is None:
        return
    root = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or extension.get_default_build_root())
    if any(root.glob("**/cpu_*.so")):
        cpuinfo.get_cpu_info_json()
