"""Linux calls that tie processes to one another; they do nothing elsewhere (Windows has job objects)."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MADV_COLLAPSE = 25
_HUGE = 2 << 20
"""Bytes of a huge page."""


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


def heed_signals() -> None:
    """Heed what whoever started the harness lets it ignore or hold back, as `nohup` and a script's background do.

    What a rank does at an interrupt must not depend on that. Python itself ignores SIGPIPE and SIGXFSZ.
    """
    if sys.platform == "linux":
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
            if signal.getsignal(number) is signal.SIG_IGN:
                interrupt = number == signal.SIGINT
                signal.signal(number, signal.default_int_handler if interrupt else signal.SIG_DFL)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let processes that start meanwhile heed SIGINT, though this one may ignore it; in the main thread only."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, lambda _number, _frame: None)  # heard and passed over; a handler is not inherited
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def children() -> list[int]:
    """The process ids of this process's children, dead ones that nobody has waited for included."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def threads() -> int:
    """How many threads this process has."""
    return len(list(Path("/proc/self/task").iterdir()))


def gather_memory() -> None:
    """Have the kernel put this process's own memory into huge pages, where it can (Linux 6.1): a fork then copies one
    entry of the page table for what otherwise takes 512."""
    if sys.platform != "linux":
        return
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        span, access, _, _, inode, *name = line.split(maxsplit=5)
        if access != "rw-p" or inode != "0" or (name and name[0] != "[heap]"):
            continue
        first, last = (int(end, 16) for end in span.split("-"))
        first, last = -(-first // _HUGE) * _HUGE, last // _HUGE * _HUGE
        if first < last:  # a refusal costs nothing but speed
            _libc().madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_COLLAPSE)
