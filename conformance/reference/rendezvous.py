"""Where the ranks of one start meet: the port that rank 0's store listens on.

The store is never put on a port that was merely found free: rank 0 keeps it listening, and torch's `env://`, which
hosts its store with multi-tenancy, shares the listening one.

A process may start, end and start again. Each start needs a store of its own, since a second one in the same store
reads the addresses that the first one left there, and hangs or dies; under torchrun, whose agent keeps the store, it
always does. So from the second start at one address on, rank 0 opens a new store and leaves its port in the first.
"""

from __future__ import annotations

import datetime
import os
import sys
from typing import TYPE_CHECKING

from conformance.reference.discovery import import_mpi
from conformance.reference.errors import TopologyError, TransportError
from conformance.reference.topology import Topology

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore

_starts: dict[tuple[str, int], int] = {}
_first_stores: dict[tuple[str, int], TCPStore] = {}
_latest_store: list[TCPStore] = []


def meet(topology: Topology, timeout: datetime.timedelta) -> int:
    """The port at which the ranks meet this time; the same in every rank.

    Collective where the topology fixes no port, and from the second start at one address on.

    Raises:
        TopologyError: the topology says no address.
        TransportError: rank 0 cannot listen there, or the others cannot learn where it listens.
    """
    if topology.master_addr is None:
        raise TopologyError(
            "topology.master_addr",
            "None, and torch.distributed is not up",
            "where the ranks meet: None is for a process group that is up already",
            "pass a topology with an address, or none",
        )
    if topology.master_port is None:
        if topology.launcher == "mpi":
            return _meet_by_mpi(topology, topology.master_addr, timeout)
        return _open(topology.master_addr, timeout)
    home = (topology.master_addr, topology.master_port)
    start = _starts.get(home, 0)
    _starts[home] = start + 1
    if start == 0:
        if topology.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            _first_stores[home] = _listen(*home, timeout)
        return topology.master_port
    return _meet_again(topology.rank, home, start, timeout)


def _meet_by_mpi(topology: Topology, address: str, timeout: datetime.timedelta) -> int:
    world = import_mpi().COMM_WORLD
    port, refusal = None, None
    if topology.rank == 0:
        try:
            port = _open(address, timeout)
        except TransportError as error:
            refusal = error.args
    port, refusal = world.bcast((port, refusal), root=0)
    if port is None:
        raise TransportError(*refusal)
    return int(port)


def _meet_again(rank: int, home: tuple[str, int], start: int, timeout: datetime.timedelta) -> int:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    key = f"conformance/start/{start}"
    try:
        first = TCPStore(*home, is_master=False, timeout=timeout, use_libuv=use_libuv())
        if rank == 0:
            first.set(key, str(_open(home[0], timeout)))
        return int(first.get(key))
    except RuntimeError as error:
        raise TransportError(
            "MASTER_ADDR, MASTER_PORT",
            f"no answer at {home[0]}:{home[1]} for start {start + 1} of this process ({_first_line(error)})",
            "rank 0, which keeps listening there for as long as it runs, to start as often as the others do",
            "start again in every rank, or in none",
        ) from error


def _open(address: str, timeout: datetime.timedelta) -> int:
    """Listen on a port of the system's choice, in place of the previous one."""
    store = _listen(address, 0, timeout)
    _latest_store[:] = [store]
    return store.port


def _listen(address: str, port: int, timeout: datetime.timedelta) -> TCPStore:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    try:
        return TCPStore(
            address,
            port,
            is_master=True,
            timeout=timeout,
            wait_for_workers=False,
            multi_tenant=True,
            use_libuv=use_libuv(),
        )
    except RuntimeError as error:
        raise TransportError(
            "MASTER_ADDR, MASTER_PORT",
            f"{address}:{port or 'any port'}, where rank 0 cannot listen ({_first_line(error)})",
            "an address of rank 0's own host, and a port that nothing else uses",
            "choose another MASTER_PORT; under mpiexec leave it unset, and rank 0 takes a free one",
        ) from error


def use_libuv() -> bool:
    """torch's own rule; TCPStore's default asks for libuv on Windows too, whose builds have none."""
    return os.environ.get("USE_LIBUV", "0" if sys.platform == "win32" else "1") == "1"


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
