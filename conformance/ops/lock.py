"""The file by which torch lets one process at a time build an extension; one that is killed leaves it for ever."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

YOUNG = 10.0
"""Seconds for which a lock is trusted whoever holds it: its holder may be between taking it and starting ninja."""


def is_stale(lock: Path) -> bool:
    """Whether the build that took `lock` is over: the file is not new, and no process works in its folder, as ninja and
    the compilers of a build do."""
    try:
        if time.time() - lock.stat().st_mtime < YOUNG:
            return False
    except FileNotFoundError:
        return False
    return not any(_works_in(process, lock.parent.resolve()) for process in psutil.process_iter())


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        where = process.cwd()
    except (psutil.Error, OSError):
        return False  # another user's, which does not build in this user's cache
    return bool(where) and Path(where) == folder


def remove(lock: Path) -> None:
    """Remove a lock that may be gone already."""
    lock.unlink(missing_ok=True)
