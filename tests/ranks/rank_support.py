"""What tests of ranks look at processes with."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from conformance.ranks import Outcome, RankStatus

FAST = "forked" if sys.platform == "linux" else "prewarmed"
"""The mode that `auto` takes."""
LIGHT_MODES = ["light cold", "light prewarmed", *(["forked"] if sys.platform == "linux" else [])]
"""Modes in which a job that needs no torch starts at once; light ones import nothing ahead."""


def running(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def descendants() -> set[int]:
    """The processes that this one has started, directly or not, but for those that serve pools."""
    mine = psutil.Process().children(recursive=True)
    return {process.pid for process in mine if not _serves(process)}


def _serves(process: psutil.Process) -> bool:
    try:
        command = process.cmdline()
        parent = process.parent()
        parent_command = parent.cmdline() if parent is not None else []
    except (psutil.Error, OSError):
        return True
    if command and "conhost" in command[0].lower():  # Windows gives each console program one
        return True
    # A forked rank has its agent's command line, and its agent for a parent.
    return command[-1:] == ["agent"] and parent_command[-1:] != ["agent"]


def wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    """Whether `condition` comes to hold within `timeout` seconds."""
    limit = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def without_luck(observation: dict[str, Any]) -> dict[str, Any]:
    """An observation of the `train` scenario without what differs from rank to rank."""
    return {name: value for name, value in observation.items() if name not in ("random", "pid")}


@contextlib.contextmanager
def interrupts(handling: Any) -> Iterator[None]:
    """Let SIGINT be handled so meanwhile: by processes that start now, `signal.SIG_IGN` is inherited, any other is not.

    A test that interrupts a program starts it under `signal.default_int_handler`: the tests themselves may run where
    interrupts are ignored, as in the background of a script.
    """
    before = signal.signal(signal.SIGINT, handling)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def statuses(outcome: Outcome) -> list[RankStatus]:
    """How the ranks ended, in rank order."""
    return [report.status for report in outcome.reports]
