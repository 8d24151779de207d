"""A world of MPI ranks as threads: enough of mpi4py.MPI to be asked for ranks."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any


@dataclasses.dataclass
class _Shared:
    size: int
    barrier: threading.Barrier
    slots: list[Any]


class _Communicator:
    def __init__(self, rank: int, shared: _Shared, hosts: Sequence[str]) -> None:
        self._rank, self._shared, self._hosts = rank, shared, hosts

    def Get_rank(self) -> int:
        return self._rank

    def Get_size(self) -> int:
        return self._shared.size

    def allgather(self, value: Any) -> list[Any]:
        self._shared.slots[self._rank] = value
        self._shared.barrier.wait(10)
        values = list(self._shared.slots)
        self._shared.barrier.wait(10)
        return values

    def Split_type(self, kind: str, key: int) -> _Host:
        assert kind == "shared"
        assert key == self._rank
        here = [rank for rank, host in enumerate(self._hosts) if host == self._hosts[self._rank]]
        return _Host(here.index(self._rank), len(here))


@dataclasses.dataclass(frozen=True)
class _Host:
    rank: int
    size: int

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return self.size

    def Free(self) -> None:
        pass


class FakeMPI:
    """What `mpi4py.MPI` is to one rank."""

    COMM_TYPE_SHARED = "shared"

    def __init__(self, communicator: _Communicator) -> None:
        self.COMM_WORLD = communicator

    @staticmethod
    def Get_library_version() -> str:
        return "Fake MPI 1.0, for tests\nmore"


def run(hosts: Sequence[str], call: Callable[[int, FakeMPI], Any]) -> list[Any]:
    """`call(rank, mpi)` in a thread a rank, on the given hosts; what each returned or raised."""
    shared = _Shared(len(hosts), threading.Barrier(len(hosts)), [None] * len(hosts))
    results: list[Any] = [None] * len(hosts)

    def work(rank: int) -> None:
        try:
            results[rank] = call(rank, FakeMPI(_Communicator(rank, shared, hosts)))
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(hosts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return results
