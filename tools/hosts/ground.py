"""What this machine lets one emulate."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.hosts import locales, memory
from tools.hosts.kind import Conditions, Kind


@dataclasses.dataclass(frozen=True)
class Ground:
    """The machine, as far as kinds of host depend on it.

    Attributes:
        system: `sys.platform`.
        root: whether this process has root's rights.
        commands: those of COMMANDS that are on PATH.
        cpu: the flags of /proc/cpuinfo; None where there is no such file.
        cores: how many cores this process may use.
        environment: this process's variables.
        memory_control: why no cgroup can limit memory; empty where one can.
    """

    system: str
    root: bool
    commands: frozenset[str]
    cpu: frozenset[str] | None
    cores: int
    environment: Mapping[str, str]
    memory_control: str


COMMANDS = ("unshare", "mount", "ip", "localedef")


def this_machine() -> Ground:
    """The machine that this runs on."""
    return Ground(
        system=sys.platform,
        root=sys.platform != "win32" and os.geteuid() == 0,
        commands=frozenset(filter(shutil.which, COMMANDS)),
        cpu=_cpu_flags(Path("/proc/cpuinfo")),
        cores=len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1,
        environment=dict(os.environ),
        memory_control=memory.obstacle(),
    )


def obstacle(kind: Kind, ground: Ground) -> str | None:
    """Why a kind of host cannot be emulated here; None if it can. Pure."""
    conditions = kind.conditions
    if ground.system not in kind.systems:
        return "needs Linux"
    if kind.cpu and ground.cpu is not None and not kind.cpu & ground.cpu:
        return f"this CPU has none of {', '.join(sorted(kind.cpu))}, so a cap changes nothing"
    variables = conditions.environment
    as_it_is = all(ground.environment.get(name) == value for name, value in variables.items())
    if conditions == Conditions(environment=variables) and as_it_is and kind.python is None:
        return "this machine is such a host as it is"
    if needs_namespaces(kind) or conditions.user is not None:
        if not ground.root:
            return "needs root"
        needed = {"unshare", "mount", *(("ip",) if conditions.network != "host" else ())}
        if missing := sorted(needed - ground.commands):
            return f"needs the command {', '.join(missing)}"
    if conditions.memory_bytes is not None and ground.memory_control:
        return ground.memory_control
    if locales.must_be_made(conditions.locale) and "localedef" not in ground.commands:
        return "needs the command localedef"
    if conditions.cores is not None and ground.cores <= conditions.cores:
        return f"this process may use {ground.cores} core anyway"
    return None


def needs_namespaces(kind: Kind) -> bool:
    """Whether processes of this host need mounts, networks or names of their own. Pure."""
    conditions = kind.conditions
    return bool(
        conditions.shm_bytes is not None
        or conditions.read_only
        or conditions.user is not None
        or conditions.network != "host"
        or conditions.host_name is not None
    )


def _cpu_flags(file: Path) -> frozenset[str] | None:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    lines = (line for line in text.splitlines() if line.startswith("flags"))
    return frozenset(next(lines, "").partition(":")[2].split()) or None
