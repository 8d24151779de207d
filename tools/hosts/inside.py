"""What runs on the emulated host first: it arranges what is left to arrange and becomes the program.

`python -m tools.hosts.inside ENTRY`, with an `Entry` in JSON. Namespaces are there already (`unshare` made them), and
the kernel takes them down, with all that is mounted or configured in them, when the last process in them has ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from conformance.ranks.platform import posix
from tools.hosts.errors import UNARRANGED
from tools.hosts.kind import Conditions

assert sys.platform == "linux"


@dataclasses.dataclass(frozen=True)
class Entry:
    """What is to be run, and on what host.

    Attributes:
        conditions: of the host.
        command: the program and its arguments.
        environment: all of its variables.
        checkout: the folder that `conditions.read_only` speaks of.
        writable: a folder in it that can be written into all the same, for the records.
        interpreter: the folder that the program's interpreter is installed in.
        parent: the process that this one does not outlive.
        group: the file to write the process id into, to join a cgroup.
    """

    conditions: Conditions
    command: tuple[str, ...]
    environment: Mapping[str, str]
    checkout: str
    writable: str
    interpreter: str
    parent: int
    group: str | None = None

    def to_text(self) -> str:
        """As JSON, of ASCII alone: it is handed on as an argument."""
        return json.dumps({**dataclasses.asdict(self), "conditions": self.conditions.to_plain()})

    @classmethod
    def from_text(cls, text: str) -> Entry:
        """What `to_text` gave."""
        plain = json.loads(text)
        conditions = Conditions.from_plain(plain.pop("conditions"))
        return cls(conditions=conditions, **{**plain, "command": tuple(plain["command"])})


def main(words: list[str]) -> int:
    """Arrange the host and become the program; returns only when that fails."""
    entry = Entry.from_text(words[0])
    try:
        arrange(entry)
        os.execvpe(entry.command[0], list(entry.command), dict(entry.environment))
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or ""
        print(f"the host could not be arranged: {' '.join(f'{error} {said}'.split())}", file=sys.stderr)
        return UNARRANGED


def arrange(entry: Entry) -> None:
    """Make this process one of that host's.

    Raises:
        OSError, subprocess.SubprocessError: the system refuses.
    """
    conditions = entry.conditions
    if entry.group is not None:
        Path(entry.group).write_text(str(os.getpid()), encoding="ascii")
    if conditions.host_name is not None:
        socket.sethostname(conditions.host_name)
    if conditions.network != "host":
        _network(conditions.network)
    if conditions.shm_bytes is not None:
        _run("mount", "-t", "tmpfs", "-o", f"size={conditions.shm_bytes},mode=1777", "tmpfs", "/dev/shm")
    if conditions.user is not None:
        _open_way_to(Path(entry.interpreter))
    if conditions.read_only:
        _run("mount", "--bind", entry.checkout, entry.checkout)
        _run("mount", "--bind", entry.writable, entry.writable)  # A mount of its own stays writable.
        _run("mount", "-o", "remount,bind,ro", entry.checkout)
        os.chdir(entry.checkout)  # By its path: the folder that this process is in lies below the mount.
    for name in conditions.ignored:
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    if not conditions.stdin:
        os.close(0)
    if conditions.umask is not None:
        os.umask(conditions.umask)
    if conditions.user is not None:
        os.setgroups([])
        os.setresgid(conditions.user, conditions.user, conditions.user)
        os.setresuid(conditions.user, conditions.user, conditions.user)
    posix.die_with(entry.parent)  # Last: the kernel forgets it when the user changes.


def _network(kind: str) -> None:
    """Set up the empty network that this process has."""
    _run("ip", "link", "set", "lo", "up")
    if kind == "ipv4":
        Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1", encoding="ascii")
        # An address beside 127.0.0.1, of those that are for documentation; a pair, for there is nothing to connect to.
        _run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        _run("ip", "address", "add", "192.0.2.1/24", "dev", "eth0")
        for name in ("eth0", "eth1"):
            _run("ip", "link", "set", name, "up")


def _open_way_to(folder: Path) -> None:
    """Let every user reach `folder`: what is closed to others on the way is hidden behind an empty folder."""
    closed = next((parent for parent in reversed(folder.parents) if not parent.stat().st_mode & 0o001), None)
    if closed is None:
        return
    kept = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        _run("mount", "-t", "tmpfs", "-o", "mode=755,size=1m", "tmpfs", str(closed))
        folder.mkdir(parents=True)
        # Not canonicalized: the link's text is the path that is hidden now.
        _run("mount", "--no-canonicalize", "--bind", f"/proc/self/fd/{kept}", str(folder), pass_fds=(kept,))
    finally:
        os.close(kept)


def _run(*command: str, pass_fds: tuple[int, ...] = ()) -> None:
    program = shutil.which(command[0]) or command[0]
    subprocess.run(
        [program, *command[1:]],
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
        timeout=30,
        pass_fds=pass_fds,
    )


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
