"""Joining rank 0's store on this host without a detour.

A rank that connects before rank 0 listens is refused, and torch then sleeps 250 to 750 ms before it tries again: longer
than most scenarios take. So such a rank looks every few milliseconds, for a second at most, and only then lets torch
connect, in its own way and with its own timeout. Nothing but the waiting changes.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
import time
from typing import Any

_PATIENCE = 1.0
_PAUSE = 0.002
_PROBE_TIMEOUT = 0.2


def look_often() -> None:
    """Let torch, if imported, wait in short steps for rank 0's store on this host."""
    module: Any = sys.modules.get("torch.distributed.rendezvous")
    create = getattr(module, "_create_c10d_store", None)
    if create is None or hasattr(create, "__wrapped__"):
        return

    @functools.wraps(create)
    def create_when_open(hostname: str, port: int, rank: int, *arguments: Any, **options: Any) -> Any:
        is_agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # torchrun's, not rank 0's to host
        if rank > 0 and hostname in ("127.0.0.1", "localhost") and not is_agents:
            await_open(hostname, port, _PATIENCE)
        return create(hostname, port, rank, *arguments, **options)

    module._create_c10d_store = create_when_open


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
