"""The stand-in for mpi4py exchanges values, knows hosts, and leaves nothing behind."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conformance.suites.common.stand_in_mpi import LIBRARY, Communicator, installed


def on_all(folder: Path, hosts: list[str], action: Any) -> list[Any]:
    """`action(world)` in as many threads as there are ranks."""
    worlds = [Communicator(folder, "w", rank, hosts) for rank in range(len(hosts))]
    with ThreadPoolExecutor(len(hosts)) as threads:
        return list(threads.map(action, worlds, timeout=20))


def test_allgather_and_bcast(tmp_path: Path) -> None:
    def exchange(world: Communicator) -> Any:
        rank = world.Get_rank()
        return world.allgather({"rank": rank}), world.bcast("from one" if rank == 1 else None, root=1)

    everywhere = on_all(tmp_path, ["a", "a", "b"], exchange)
    assert everywhere == [([{"rank": 0}, {"rank": 1}, {"rank": 2}], "from one")] * 3


def test_split_by_host(tmp_path: Path) -> None:
    def place(world: Communicator) -> Any:
        here = world.Split_type(1, key=world.Get_rank())
        return here.Get_rank(), here.Get_size(), here.allgather(world.Get_rank())

    assert on_all(tmp_path, ["a", "b", "a"], place) == [(0, 2, [0, 2]), (0, 1, [1]), (1, 2, [0, 2])]


def test_installed_is_what_import_gives_and_goes_again(tmp_path: Path) -> None:
    before = sys.modules.get("mpi4py.MPI")
    with installed(tmp_path, 0, ["a"], host_name="clone"):
        from mpi4py import MPI

        assert (MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()) == (0, 1)
        assert (MPI.Get_processor_name(), MPI.Get_library_version()) == ("clone", LIBRARY)
    assert sys.modules.get("mpi4py.MPI") is before


def test_the_reference_finds_its_place_through_it(tmp_path: Path) -> None:
    from conformance.reference import find_topology

    with installed(tmp_path, 0, ["a"]):
        topology = find_topology({"PMI_RANK": "0", "PMI_SIZE": "1"})
    assert (topology.launcher, topology.rank, topology.world_size) == ("mpi", 0, 1)


@pytest.mark.parametrize("name", ["mpi4py", "mpi4py.MPI"])
def test_it_goes_after_an_error_too(tmp_path: Path, name: str) -> None:
    before = sys.modules.get(name)
    with pytest.raises(RuntimeError, match="inside"), installed(tmp_path, 0, ["a"]):
        raise RuntimeError("inside")
    assert sys.modules.get(name) is before
