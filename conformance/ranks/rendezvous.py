"""Joining rank 0's store on this host: without a detour, and more than once.

A rank that connects before rank 0 listens is refused, and torch then sleeps 250 to 750 ms before it tries again: longer
than most scenarios take. So such a rank looks every few milliseconds, for a second at most, and only then lets torch
connect, in its own way and with its own timeout.

A rank that initialises again may connect to rank 0's store of the first time just before that ends, and fail. So rank 0
keeps its store until the job is over, and the second and later times have keys of their own in it.
"""

from __future__ import annotations

import collections
import functools
import os
import socket
import sys
import time
from typing import Any

_PATIENCE = 1.0
_PAUSE = 0.002
_PROBE_TIMEOUT = 0.2

_kept: list[Any] = []
_times: collections.Counter[tuple[str, int]] = collections.Counter()


def ease() -> None:
    """Make it so in this process, if it has imported torch.distributed."""
    module: Any = sys.modules.get("torch.distributed.rendezvous")
    create = getattr(module, "_create_c10d_store", None)
    if create is None or hasattr(create, "__wrapped__"):
        return

    prefix_store = sys.modules["torch.distributed"].PrefixStore

    @functools.wraps(create)
    def create_eased(hostname: str, port: int, rank: int, *arguments: Any, **options: Any) -> Any:
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # torchrun's, and not rank 0's to host
            return create(hostname, port, rank, *arguments, **options)
        if rank > 0 and hostname in ("127.0.0.1", "localhost"):
            await_open(hostname, port, _PATIENCE)
        store = create(hostname, port, rank, *arguments, **options)
        if rank == 0:
            _kept.append(store)
        _times[hostname, port] += 1
        time_of_this = _times[hostname, port]
        return store if time_of_this == 1 else prefix_store(f"time{time_of_this}", store)

    module._create_c10d_store = create_eased


def forget() -> None:
    """After a job: let go of its stores."""
    _kept.clear()
    _times.clear()


def await_open(hostname: str, port: int, patience: float) -> bool:
    """Wait until someone listens on a port; False if no one does within `patience` seconds."""
    limit = time.monotonic() + patience
    while time.monotonic() < limit:
        try:
            socket.create_connection((hostname, port), timeout=_PROBE_TIMEOUT).close()
        except OSError:
            time.sleep(_PAUSE)
        else:
            return True
    return False
