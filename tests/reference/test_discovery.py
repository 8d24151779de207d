"""Ranks that mpiexec started, with MPI's world as threads."""

from __future__ import annotations

import builtins
import socket
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.reference import MpiError, Topology, TopologyError, find_topology
from conformance.reference.discovery import import_mpi
from tests.reference.fake_mpi import FakeMPI, run


def find_all(hosts: list[str], changes: Mapping[int, Mapping[str, str]] | None = None) -> list[Any]:
    """What each rank finds in an MPICH job on these hosts, with changes to the environments of some."""

    def find(rank: int, mpi: FakeMPI) -> Topology:
        environ = {"PMI_RANK": str(rank), "PMI_SIZE": str(len(hosts)), **(changes or {}).get(rank, {})}
        return find_topology(environ, mpi=lambda: mpi)

    return run(hosts, find)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6))
def test_ranks_and_local_ranks_are_mpis(hosts: list[str]) -> None:
    found = find_all(hosts, {0: {"MASTER_ADDR": "rank0.cluster"}})
    assert [(each.rank, each.world_size) for each in found] == [(rank, len(hosts)) for rank in range(len(hosts))]
    assert [each.local_rank for each in found] == [hosts[:rank].count(host) for rank, host in enumerate(hosts)]
    assert [each.local_size for each in found] == [hosts.count(host) for host in hosts]
    assert {(each.master_addr, each.master_port, each.launcher) for each in found} == {("rank0.cluster", None, "mpi")}


def test_ranks_of_one_host_meet_on_loopback_at_no_fixed_port() -> None:
    """INIT-21, INIT-24: no `hostname -I`, no port 29500."""
    assert {(each.master_addr, each.master_port) for each in find_all(["a", "a"])} == {("127.0.0.1", None)}


def test_only_rank_0_says_where_to_meet() -> None:
    changes = {0: {"MASTER_ADDR": "node0", "MASTER_PORT": "4000"}, 1: {"MASTER_ADDR": "node1", "MASTER_PORT": "1"}}
    assert {(each.master_addr, each.master_port) for each in find_all(["a", "b"], changes)} == {("node0", 4000)}


def test_ranks_of_several_hosts_meet_at_an_address_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    def addresses(*_: object) -> list[Any]:
        return [(socket.AF_INET, 0, 0, "", (address, 0)) for address in ("127.0.1.1", "10.1.2.3")]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    assert {each.master_addr for each in find_all(["a", "b"])} == {"10.1.2.3"}


def test_a_host_without_such_an_address_is_refused_in_every_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror("Name or service not known")

    class NoRoute(socket.socket):
        def connect(self, _: Any) -> None:
            raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(socket, "socket", NoRoute)
    errors = find_all(["a", "b"])
    assert [type(error) for error in errors] == [TopologyError, TopologyError]
    assert [error.subject for error in errors] == ["MASTER_ADDR", "MASTER_ADDR of rank 0"]
    assert "set MASTER_ADDR in rank 0's environment" in errors[1].remedy


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"RANK": "0"}, "found 0, while MPI says 1"),
        ({"WORLD_SIZE": "1"}, "found 1, while MPI says 2"),
        ({"LOCAL_RANK": "0"}, "found 0, while MPI says 1"),
        ({"RANK": "one"}, "found 'one'"),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "0"}, "found 0, while MPI says 1"),
    ],
)
def test_a_contradiction_in_one_rank_is_refused_in_all(changes: dict[str, str], words: str) -> None:
    (name,) = changes
    errors = find_all(["a", "a"], {1: changes})
    assert [type(error) for error in errors] == [TopologyError, TopologyError]
    assert [error.subject for error in errors] == [f"{name} of rank 1", name]
    assert all(words in str(error) for error in errors)


def test_what_agrees_with_mpi_is_accepted() -> None:
    found = find_all(["a", "a"], {1: {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}})
    assert [each.local_rank for each in found] == [0, 1]


@pytest.mark.parametrize(
    ("environ", "subject"),
    [
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "PMI_SIZE"),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_SIZE"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_SIZE"),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"}, "MV2_COMM_WORLD_SIZE"),
        ({"PMIX_RANK": "1", "SLURM_STEP_NUM_TASKS": "2"}, "SLURM_STEP_NUM_TASKS"),
    ],
)
def test_mpiexec_and_library_of_two_mpis_are_refused(environ: dict[str, str], subject: str) -> None:
    """INIT-24: every rank sees a world of one, and would train alone."""
    (error,) = run(["a"], lambda _, mpi: find_topology(environ, mpi=lambda: mpi))
    assert isinstance(error, MpiError)
    assert error.subject == subject
    assert "found 2, while the MPI that mpi4py loaded (Fake MPI 1.0) has a world of 1" in str(error)
    assert "MPI4PY_LIBMPI" in error.remedy


def without_mpi4py(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    original = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "mpi4py":
            raise error
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)


def test_mpi4py_missing_under_mpiexec_is_refused_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_mpi4py(monkeypatch, ModuleNotFoundError("No module named 'mpi4py'"))
    with pytest.raises(MpiError) as caught:
        find_topology({"PMI_RANK": "0", "PMI_SIZE": "2"})
    assert "No module named 'mpi4py'" in str(caught.value)
    assert "python -m pip install mpi4py" in caught.value.remedy


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("No module named 'mpi4py'"), RuntimeError("cannot load MPI library\nlibmpi.so.12")]
)
@pytest.mark.parametrize(
    "environ",
    [
        {"PMI_RANK": "0", "PMI_SIZE": "1", "SLURM_NTASKS": "4"},
        {"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "1"},
        {"OMPI_COMM_WORLD_SIZE": "1"},
    ],
)
def test_one_task_without_an_mpi_is_a_job_of_one(
    monkeypatch: pytest.MonkeyPatch, error: Exception, environ: dict[str, str]
) -> None:
    without_mpi4py(monkeypatch, error)
    assert find_topology(environ) == Topology.alone()


@pytest.mark.parametrize("changes", [{"RANK": "0"}, {"PMI_SIZE": "2"}])
def test_a_task_among_others_or_half_described_still_needs_mpi(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    without_mpi4py(monkeypatch, RuntimeError("cannot load MPI library"))
    with pytest.raises(MpiError):
        find_topology({"PMI_RANK": "0", "PMI_SIZE": "1"} | changes)


def test_an_address_in_brackets_reaches_the_other_ranks_without() -> None:
    assert {each.master_addr for each in find_all(["a", "b"], {0: {"MASTER_ADDR": "[fe80::1]"}})} == {"fe80::1"}


def test_a_missing_mpi_library_is_refused_with_those_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without_mpi4py(monkeypatch, RuntimeError("cannot load MPI library\nlibmpi.so.12: no such file"))
    with pytest.raises(MpiError) as caught:
        import_mpi()
    assert "found cannot load MPI library; expected" in str(caught.value)
    assert "impi-rt" in caught.value.remedy
