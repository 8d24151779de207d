"""Linux calls that tie processes to one another; they do nothing elsewhere (Windows has job objects)."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> None:
    """Be killed when `parent`, this process's parent, ends; end now if it already has."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends.

    Raises:
        OSError: the kernel refuses.
    """
    if sys.platform == "linux" and _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"PR_SET_CHILD_SUBREAPER: {os.strerror(number)}")


def children() -> list[int]:
    """The process ids of this process's children, dead ones that nobody has waited for included."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def threads() -> int:
    """How many threads this process has."""
    return len(list(Path("/proc/self/task").iterdir()))
