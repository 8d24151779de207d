"""A limit on the memory of a program and all that it starts: a cgroup of its own, of version 1 or 2.

A limit on address space (RLIMIT_AS) would not do: it counts for each process alone, and torch maps far more than it
uses.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.hosts.errors import EmulationError

GROUPS: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "conformance-hosts-"
_LIMITS: Final = {"memory.max": "memory.swap.max", "memory.limit_in_bytes": "memory.memsw.limit_in_bytes"}
"""The limit's file by version, and that of swap, which is not everywhere."""
_GONE_SECONDS: Final = 5.0


def obstacle(groups: Path = GROUPS) -> str:
    """Why no memory can be limited here; empty where it can."""
    if sys.platform != "linux":
        return "needs Linux"
    if os.geteuid() != 0:
        return "needs root, or systemd: systemd-run --user --scope -p MemoryMax=3G python -m nox -s linux_gloo"
    place = _place(groups)
    if place is None:
        return f"needs a memory controller of cgroups under {groups}"
    return "" if os.access(place, os.W_OK) else f"needs a writable {place}"


@contextlib.contextmanager
def limited(size: int, groups: Path = GROUPS) -> Iterator[Path]:
    """A cgroup whose processes together use `size` bytes at most; a process joins by writing its id into the file.

    Processes that are still in it at the end are not this function's to end: the group then stays, and is said.

    Yields:
        The file that process ids are written into.

    Raises:
        EmulationError: there is no such cgroup to be had.
    """
    place = _place(groups)
    if place is None:
        raise EmulationError(obstacle(groups))
    _sweep(place)
    group = place / f"{PREFIX}{os.getpid()}"
    try:
        group.mkdir(exist_ok=True)
        name, swap = next((pair for pair in _LIMITS.items() if (group / pair[0]).exists()), ("", ""))
        if not name:
            raise EmulationError(f"{group} cannot limit memory; needs the memory controller in {place}")
        (group / name).write_text(str(size), encoding="ascii")
        if (group / swap).exists():
            (group / swap).write_text("0" if name == "memory.max" else str(size), encoding="ascii")
        yield group / "cgroup.procs"
    except OSError as error:
        raise EmulationError(f"{group}: {error}") from None
    finally:
        _remove(group)


def _place(groups: Path) -> Path | None:
    """Where a group can be made: version 1's memory controller, or version 2's root where it passes memory on."""
    if (groups / "memory" / "memory.limit_in_bytes").exists():
        return groups / "memory"
    control = groups / "cgroup.subtree_control"
    if control.exists() and "memory" in control.read_text(encoding="ascii").split():
        return groups
    return None


def _sweep(place: Path) -> None:
    """Remove the groups that killed runs have left."""
    for group in place.glob(f"{PREFIX}*"):
        process = group.name.removeprefix(PREFIX)
        if process.isdigit() and not Path("/proc", process).exists():
            with contextlib.suppress(OSError):
                group.rmdir()


def _remove(group: Path) -> None:
    limit = time.monotonic() + _GONE_SECONDS
    while group.exists():
        try:
            group.rmdir()
        except OSError:  # Ended processes leave it a moment later.
            if time.monotonic() > limit:
                return
            time.sleep(0.05)
