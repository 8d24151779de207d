"""A port for a job's rendezvous, reserved before rank 0 listens on it.

Rank 0 hosts torch's store on MASTER_PORT as in any launch with launcher `env`, and may host it again after it has ended
the first. A store hosted by the harness, torchrun's way, would change what is tested: it keeps the keys of the first
group, so that with torch 2.13 the second `init_process_group` of a job connects to addresses that are gone.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import sys
from collections.abc import Callable


class Port:
    """A TCP port of this host that no one else is given until `release`."""

    def __init__(self, number: int, holder: socket.socket) -> None:
        self.number = number
        self._holder = holder

    def release(self) -> None:
        """Give the port back."""
        self._holder.close()


def _held_by_kernel() -> Port:
    """Bind without listening: the kernel gives the port to no one who asks for a free one, and torch's store, which
    sets SO_REUSEADDR as this socket does, may still listen on it."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            holder = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        try:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            holder.bind((address, 0))
        except OSError:
            holder.close()
            continue
        return Port(holder.getsockname()[1], holder)
    raise OSError("no TCP port of this host can be bound, neither IPv6 nor IPv4")


_TICKETS = range(20_000, 32_000)
"""Below Windows's and Linux's ranges of ports given out by themselves."""


def _held_by_ticket() -> Port:
    """Windows has no such sharing. So take a port that the system gives to no one by itself, test that it is free, and
    hold the UDP port of the same number as a ticket that every other harness respects."""
    order = random.Random(os.urandom(8))
    for number in order.sample(_TICKETS, len(_TICKETS)):
        ticket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        exclusive = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
        try:
            if exclusive is not None:
                ticket.setsockopt(socket.SOL_SOCKET, exclusive, 1)
            ticket.bind(("127.0.0.1", number))
            _test_free(number)
        except OSError:
            ticket.close()
            continue
        return Port(number, ticket)
    raise OSError(f"no free TCP port in {_TICKETS.start}…{_TICKETS.stop - 1}; end the programs that listen there")


def _test_free(number: int) -> None:
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        with contextlib.ExitStack() as stack:
            try:
                probe = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            except OSError:
                continue
            probe.bind((address, number))


reserve: Callable[[], Port] = _held_by_ticket if sys.platform == "win32" else _held_by_kernel
"""Reserve a port; OSError when there is none."""
