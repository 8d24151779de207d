"""Who am I: from a complete environment, from nothing, from torch.distributed; and every refusal between."""

from __future__ import annotations

import logging
import sys
import types
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.reference import Topology, TopologyError, find_topology
from conformance.reference.topology import VARIABLES, adopt_topology

COMPLETE = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
}


def no_mpi() -> NoReturn:
    raise AssertionError("MPI was asked without need")


def find(environ: dict[str, str]) -> Topology:
    return find_topology(environ, mpi=no_mpi)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    world_size = draw(st.integers(1, 10_000))
    local_size = draw(st.integers(1, world_size))
    return Topology(
        draw(st.integers(0, world_size - 1)),
        world_size,
        draw(st.integers(0, local_size - 1)),
        local_size,
        draw(st.sampled_from(["127.0.0.1", "node-7.cluster", "fe80::1"])),
        draw(st.integers(1, 65535)),
        "env",
    )


@given(topologies())
def test_a_complete_environment_is_found_as_it_was_written(topology: Topology) -> None:
    environ = topology.environment() | {"LOCAL_WORLD_SIZE": str(topology.local_size)}
    assert find(environ) == topology


@given(st.sampled_from(["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "LOCAL_WORLD_SIZE"]), st.text(max_size=6))
def test_what_is_no_number_is_refused_by_name(name: str, text: str) -> None:
    try:
        int(text)
    except ValueError:
        with pytest.raises(TopologyError) as caught:
            find(COMPLETE | {name: text})
        assert caught.value.subject == name
        assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "subject", "words"),
    [
        ({"RANK": "-1"}, "RANK", "at least 0"),
        ({"RANK": "4"}, "RANK", "0 to 3, as WORLD_SIZE is 4"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE", "at least 1"),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK", "at least 0"),
        ({"LOCAL_RANK": "4"}, "LOCAL_RANK", "0 to 3, for 4 ranks on this host"),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "1"}, "LOCAL_RANK", "0 to 0"),
        ({"LOCAL_RANK": "1", "LOCAL_SIZE": "1"}, "LOCAL_RANK", "0 to 0"),
        ({"LOCAL_WORLD_SIZE": "5"}, "LOCAL_WORLD_SIZE", "1 to 4"),
        ({"MASTER_PORT": "0"}, "MASTER_PORT", "at least 1"),
        ({"MASTER_PORT": "65536"}, "MASTER_PORT", "1 to 65535"),
        ({"MASTER_ADDR": " "}, "MASTER_ADDR", "rank 0's host"),
        ({"MASTER_ADDR": "[::1"}, "MASTER_ADDR", "a name or an address alone"),
        ({"MASTER_ADDR": "[node0]"}, "MASTER_ADDR", "a name or an address alone"),
        ({"MASTER_ADDR": "[::1]:29500"}, "MASTER_ADDR", "a name or an address alone"),
        ({"MASTER_ADDR": "node0:29500"}, "MASTER_ADDR", "a name or an address alone"),
        ({"MASTER_ADDR": "tcp://node0"}, "MASTER_ADDR", "a name or an address alone"),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "0"}, "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK is 0"),  # INIT-15
        # A complete environment inside an MPI job that says otherwise.
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "WORLD_SIZE", "mpiexec's PMI_SIZE is 2"),
        ({"PMI_RANK": "0", "PMI_SIZE": "4"}, "RANK", "mpiexec's PMI_RANK is 0"),
        ({"OMPI_COMM_WORLD_SIZE": "8"}, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE is 8"),
        ({"PMI_RANK": "x", "PMI_SIZE": "4"}, "PMI_RANK", "an integer"),
    ],
)
def test_a_complete_environment_that_is_wrong_is_refused(changes: dict[str, str], subject: str, words: str) -> None:
    with pytest.raises(TopologyError) as caught:
        find(COMPLETE | changes)
    assert caught.value.subject == subject
    assert words in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["[::1]", " [::1] ", "::1"])
def test_an_ipv6_address_may_stand_in_brackets(text: str) -> None:
    """torch would look up the name "[::1]", again and again."""
    assert find(COMPLETE | {"MASTER_ADDR": text}).environment()["MASTER_ADDR"] == "::1"


@pytest.mark.parametrize(
    "changes",
    [
        {"PMI_RANK": "1", "PMI_SIZE": "4"},
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
        # torchrun started once a host by mpiexec: its children inherit the variables of torchrun itself
        {"PMI_RANK": "0", "PMI_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"},
        {"SLURM_NTASKS": "4"},
    ],
)
def test_a_complete_environment_that_agrees_needs_no_mpi(changes: dict[str, str]) -> None:
    topology = find(COMPLETE | changes)
    assert topology == Topology(1, 4, 1, None, "node0", 29500, "env")


@given(st.sets(st.sampled_from(VARIABLES), min_size=1, max_size=4))
def test_an_incomplete_environment_is_refused_unless_it_names_no_rank(names: set[str]) -> None:
    """INIT-23: DeepSpeed would let every rank train alone and say nothing."""
    environ = {name: COMPLETE[name] for name in names}
    if names <= {"MASTER_ADDR", "MASTER_PORT"}:
        assert find(environ) == Topology.alone()
        return
    with pytest.raises(TopologyError) as caught:
        find(environ)
    assert set(caught.value.subject.split(", ")) == set(VARIABLES) - names
    shown = {f"{name}={COMPLETE[name]}" for name in names & {"RANK", "WORLD_SIZE", "LOCAL_RANK"}}
    assert shown == {word for word in caught.value.found.split() if "=" in word}
    assert "torchrun" in caught.value.remedy


def test_nothing_set_is_a_job_of_one() -> None:
    topology = find({})
    assert topology == Topology(0, 1, 0, 1, "127.0.0.1", None, "none")
    assert topology.environment() == {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}


def test_a_lonely_meeting_place_is_said_to_be_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        find({"MASTER_ADDR": "node0"})
    assert "MASTER_ADDR=node0 without RANK and WORLD_SIZE: this process trains alone" in caplog.text


@pytest.mark.parametrize(
    ("environ", "subject"),
    [
        ({"SLURM_NTASKS": "4"}, "SLURM_NTASKS"),
        ({"SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}, "SLURM_STEP_NUM_TASKS"),
    ],
)
def test_tasks_of_slurm_without_ranks_are_refused(environ: dict[str, str], subject: str) -> None:
    with pytest.raises(TopologyError) as caught:
        find(environ)
    assert caught.value.subject == subject
    assert "RANK=$SLURM_PROCID" in caught.value.remedy
    assert "Topology.alone()" in caught.value.remedy


@pytest.mark.parametrize(
    "environ", [{"SLURM_NTASKS": "1"}, {"SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1"}, {"SLURM_JOB_ID": "7"}]
)
def test_one_task_of_slurm_is_a_job_of_one(environ: dict[str, str]) -> None:
    assert find(environ).launcher == "none"


@pytest.mark.parametrize(("initialised", "size", "launcher"), [(True, 1, "none"), (False, 2, "none")])
def test_mpi_is_believed_only_where_the_caller_runs_it_with_others(
    monkeypatch: pytest.MonkeyPatch, initialised: bool, size: int, launcher: str
) -> None:
    module = types.SimpleNamespace(
        Is_initialized=lambda: initialised,
        Is_finalized=lambda: False,
        COMM_WORLD=types.SimpleNamespace(Get_size=lambda: size),
    )
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", module)
    assert find({}).launcher == launcher


@pytest.mark.parametrize(
    ("values", "subject"),
    [
        ({"world_size": 0}, "WORLD_SIZE"),
        ({"rank": 2}, "RANK"),
        ({"local_size": 3}, "LOCAL_WORLD_SIZE"),
        ({"local_rank": -1}, "LOCAL_RANK"),
        ({"master_port": 0}, "MASTER_PORT"),
        ({"master_addr": ""}, "MASTER_ADDR"),
        ({"master_port": None}, "MASTER_ADDR, MASTER_PORT"),
        ({"launcher": "mpi", "master_addr": None}, "MASTER_ADDR"),
    ],
)
def test_a_topology_made_by_hand_is_checked_too(values: dict[str, Any], subject: str) -> None:
    right: dict[str, Any] = {
        "rank": 0,
        "world_size": 2,
        "local_rank": 0,
        "local_size": 2,
        "master_addr": "node0",
        "master_port": 1234,
        "launcher": "env",
    }
    assert Topology(**right).environment()["MASTER_PORT"] == "1234"
    with pytest.raises(TopologyError) as caught:
        Topology(**(right | values))
    assert caught.value.subject == subject


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (COMPLETE, Topology(1, 4, 1, None, "node0", 29500, "env")),
        ({"LOCAL_RANK": "1"}, Topology(1, 4, 1, None, None, None, "adopted")),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "1"}, Topology(1, 4, 1, None, None, None, "adopted")),
        ({"MPI_LOCALRANKID": "1", "LOCAL_WORLD_SIZE": "2"}, Topology(1, 4, 1, 2, None, None, "adopted")),
    ],
)
def test_a_running_process_group_is_adopted(environ: dict[str, str], expected: Topology) -> None:
    assert adopt_topology(1, 4, environ) == expected


def test_a_running_process_group_of_one_needs_no_variables() -> None:
    assert adopt_topology(0, 1, {}) == Topology(0, 1, 0, None, None, None, "adopted")


@pytest.mark.parametrize(
    ("environ", "subject", "words"),
    [
        ({}, "LOCAL_RANK", "already up as rank 1 of 4"),  # INIT-14
        (COMPLETE | {"RANK": "2"}, "RANK", "2, while torch.distributed is already up as rank 1 of 4"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE", "2, while torch.distributed is already up"),
        ({"LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, "LOCAL_RANK", "DeepSpeed refuses a conflict"),
    ],
)
def test_a_contradiction_to_a_running_process_group_is_refused(
    environ: dict[str, str], subject: str, words: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        adopt_topology(1, 4, environ)
    assert caught.value.subject == subject
    assert words in str(caught.value)
