"""Ending an MPI job when an exception that nobody caught ends one of its ranks.

Without it that rank waits in MPI_Finalize for the others, and they wait for it in a collective, for ever. With
`python -m mpi4py` MPI's job is ended too; this does the same for ranks that were started without.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from conformance.reference.discovery import running_mpi


class _Hook:
    """An excepthook that calls the one before it, and then MPI_Abort."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.active = True

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self.before(kind, error, trace)
        mpi = running_mpi()
        if self.active and mpi is not None:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:  # as under pythonw
                    stream.flush()
            mpi.COMM_WORLD.Abort(1)


_installed: list[_Hook] = []
"""The hook in use, if any; a list, so that it can be emptied in place."""


def install() -> None:
    """From now on, an exception that nobody catches ends the whole job; safe to call twice.

    Does nothing in a process that has no MPI running, or is its only rank. Call it again where somebody else may have
    put a hook on top, as torch.distributed does: that one prints only after those below it, and MPI_Abort does not
    return.
    """
    mpi = running_mpi()
    if mpi is None or mpi.COMM_WORLD.Get_size() == 1 or sys.excepthook in _installed:
        return
    restore()
    hook = _Hook(sys.excepthook)
    _installed.append(hook)
    sys.excepthook = hook


def restore() -> None:
    """Put back the excepthook that was there; one that somebody else has put on top since stays."""
    while _installed:
        hook = _installed.pop()
        hook.active = False
        if sys.excepthook is hook:
            sys.excepthook = hook.before
