"""The file by which torch lets one process at a time build an extension; one that is killed leaves it for ever."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

YOUNG = 10.0
"""Seconds for which a lock is trusted whoever holds it: its holder may be between taking it and starting ninja."""


def is_stale(lock: Path, young: float = YOUNG) -> bool:
    """Whether the build that took `lock` is over: the file is older than `young` seconds, and nobody builds there."""
    try:
        if time.time() - lock.stat().st_mtime < young:
            return False
    except FileNotFoundError:
        return False
    return not is_building(lock.parent)


def is_building(folder: Path) -> bool:
    """Whether a process works in an op's folder, as ninja and the compilers of a build do."""
    where = folder.resolve()
    return any(_works_in(process, where) for process in psutil.process_iter())


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        where = process.cwd()
    except (psutil.Error, OSError):
        return False  # another user's, which does not build in this user's cache
    return bool(where) and Path(where) == folder


def remove(lock: Path) -> None:
    """Remove a lock that may be gone already."""
    lock.unlink(missing_ok=True)
