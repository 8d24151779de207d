"""Asking only once which processor this is."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any, Final

_CURIOUS: Final = ("cpu_adam", "cpu_adagrad", "cpu_lion", "fused_adam", "async_io", "pin_memory")
"""Ops whose builders or optimizers ask."""


def remember() -> None:
    """Make py-cpuinfo, which DeepSpeed requires, answer from memory after the first time.

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
    from conformance.hosts.ops import probe as ops

    cpuinfo = sys.modules.get("cpuinfo.cpuinfo")
    if cpuinfo is not None and any(name in ops.installed_ops() or ops.cached(name) for name in _CURIOUS):
        cpuinfo.get_cpu_info_json()
