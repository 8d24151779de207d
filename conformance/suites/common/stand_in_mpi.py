"""A stand-in for mpi4py: as many ranks, on as many hosts, as a case wants, without an MPI.

It holds what DeepSpeed's discovery and the reference ask of MPI, and no more. Lanes whose ranks come from mpiexec ask
the same questions of a real one.
"""

from __future__ import annotations

import contextlib
import datetime
import pickle
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PATIENCE = datetime.timedelta(seconds=20)
LIBRARY = "Stand-in MPI 1.0"


class Communicator:
    """Ranks that exchange values through a file.

    Args:
        folder: an existing folder that all ranks of the communicator share.
        name: of the communicator, unlike any other's in the folder.
        rank: this process's.
        hosts: the machine of each rank, any text; as many as there are ranks.
    """

    def __init__(self, folder: Path, name: str, rank: int, hosts: Sequence[str]) -> None:
        from torch.distributed import FileStore  # type: ignore[attr-defined]

        self._folder, self._name, self._rank, self._hosts = folder, name, rank, tuple(hosts)
        self._store = FileStore(str(folder / f"mpi-{name}"), len(hosts))
        self._store.set_timeout(PATIENCE)
        self._exchanges = 0

    def Get_rank(self) -> int:
        return self._rank

    def Get_size(self) -> int:
        return len(self._hosts)

    def allgather(self, value: Any) -> list[Any]:
        """The values of all ranks, in rank order."""
        self._exchanges += 1
        self._store.set(f"{self._exchanges}/{self._rank}", pickle.dumps(value).hex())
        texts = [self._store.get(f"{self._exchanges}/{rank}") for rank in range(self.Get_size())]
        return [pickle.loads(bytes.fromhex(text.decode())) for text in texts]

    def bcast(self, value: Any, root: int = 0) -> Any:
        """The value of rank `root`."""
        return self.allgather(value)[root]

    def Split_type(self, split_type: int, key: int = 0) -> Communicator:
        """The ranks on this rank's host."""
        here = [rank for rank, host in enumerate(self._hosts) if host == self._hosts[self._rank]]
        name = f"{self._name}.host{here[0]}"
        return Communicator(self._folder, name, here.index(self._rank), [self._hosts[rank] for rank in here])

    def Free(self) -> None:
        """Nothing to free."""


@contextlib.contextmanager
def installed(
    folder: Path, rank: int, hosts: Sequence[str], *, name: str = "world", host_name: str | None = None
) -> Iterator[Communicator]:
    """Let `from mpi4py import MPI` give a stand-in whose COMM_WORLD has `rank` among the ranks on `hosts`.

    Args:
        host_name: what this rank's machine calls itself; its name in `hosts` by default.
    """
    world = Communicator(folder, name, rank, hosts)
    mpi: Any = types.ModuleType("mpi4py.MPI")
    mpi.COMM_WORLD = world
    mpi.COMM_TYPE_SHARED = 1
    mpi.Get_processor_name = lambda: host_name or hosts[rank]
    mpi.Get_library_version = lambda: LIBRARY
    mpi.Is_initialized = lambda: True
    mpi.Is_finalized = lambda: False
    package: Any = types.ModuleType("mpi4py")
    package.MPI = mpi
    names = ("mpi4py", "mpi4py.MPI")
    before = {found: sys.modules.get(found) for found in names}
    sys.modules.update(zip(names, (package, mpi), strict=True))
    try:
        yield world
    finally:
        for found, module in before.items():
            if module is None:
                sys.modules.pop(found, None)
            else:
                sys.modules[found] = module
