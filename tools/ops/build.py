"""Building one op in a process of its own, with progress and a deadline."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from conformance.hosts.ops import lock

PAUSE = 0.2
SAY_EVERY = 10.0
TAIL_LINES = 25
_COUNT = re.compile(r"^\[(\d+)/(\d+)\]", re.MULTILINE)

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Build:
    """What came of a build.

    Attributes:
        problem: why there is no op now; empty when it was built.
        seconds: how long it took, waiting for another process's build included.
        tail: the end of the compiler's output; empty when it was built.
    """

    name: str
    problem: str
    seconds: float
    tail: str = ""


def build(
    name: str,
    command: Sequence[str],
    *,
    folder: Path,
    log: Path,
    deadline: float,
    say: Say,
    environment: Mapping[str, str] | None = None,
) -> Build:
    """Run `command`, which builds the op `name` in `folder`; afterwards no process of it is left, and no lock.

    Locks of other ops count too, since one op may build another that it needs.

    Args:
        folder: the op's own in torch's cache; need not exist.
        log: takes all output.
        deadline: seconds, for waiting for another process that builds the same op too.
        environment: of the command; None for this process's.
    """
    begin = time.monotonic()
    started = time.time()
    baton = folder / "lock"
    waited = False
    for old in filter(lock.is_stale, _locks(folder)):
        say(f"{name}: removing the lock of a build that did not end: {old}")
        lock.remove(old)
    while baton.exists():
        if lock.is_stale(baton):
            lock.remove(baton)
            break
        if not waited:
            say(f"{name}: another process is building it")
            waited = True
        if time.monotonic() - begin > deadline:
            return Build(name, f"another process still builds it after {deadline:.0f} s", time.monotonic() - begin)
        time.sleep(PAUSE)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(os.environ if environment is None else environment),
        )
    late = False
    try:
        said = begin
        while process.poll() is None:
            now = time.monotonic()
            if now - begin > deadline:
                late = True
                break
            if now - said >= SAY_EVERY:
                said = now
                say(f"{name}: {progress(log)}{now - begin:.0f} s")
            time.sleep(PAUSE)
    finally:
        if process.poll() is None:
            end_tree(process)
            for new in _locks(folder):
                if new.stat().st_mtime >= started:
                    lock.remove(new)
    seconds = time.monotonic() - begin
    if late:
        return Build(name, f"not built within {deadline:.0f} s", seconds, _tail(log))
    if process.returncode != 0:
        return Build(name, f"the build ended with exit code {process.returncode}", seconds, _tail(log))
    return Build(name, "", seconds)


def _locks(folder: Path) -> list[Path]:
    return sorted(folder.parent.glob("*/lock"))


def progress(log: Path) -> str:
    """How far ninja is, as `2 of 3 files, `; empty before it says so."""
    counts = _COUNT.findall(log.read_text(encoding="utf-8", errors="replace"))
    return "{} of {} files, ".format(*counts[-1]) if counts else ""


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it has started: a killed ninja leaves its compilers running."""
    doomed = [psutil.Process(process.pid)]
    doomed += doomed[0].children(recursive=True)
    for each in doomed:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(doomed[1:], timeout=10)
    process.wait()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:])
