"""The checks of the launch suite can fail."""

from __future__ import annotations

import re
from typing import Any

import pytest

from conformance.model.verdict import NotRun
from conformance.suites import launch as suite
from tests.suites.planted import proof, refused, returned

TOPOLOGY, TRANSPORT = "TopologyError", "TransportError"
MODULE = "conformance.reference.errors"
TOLD = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1234"}


TAKEN = "EADDRINUSE (system error: 10048)"
"""What stores say of a taken port: libuv's on Linux, the other on Windows."""


def told(rank: int, **changes: str | None) -> dict[str, str | None]:
    """The five variables of a rank on one host."""
    return {**TOLD, "RANK": str(rank), "LOCAL_RANK": str(rank), **changes}


def alone() -> list[dict[str, Any]]:
    """Two ranks that each trained in a world of one."""
    return [{"started": returned(proof(world=1, engine_world=1)), "after": told(0)} for _ in (0, 1)]


def test_complete_environment_sees_a_changed_variable() -> None:
    seen = [{"proof": proof(rank), "before": told(rank), "after": told(rank)} for rank in (0, 1)]
    suite.check_complete_environment(seen)
    with pytest.raises(AssertionError, match=r"MASTER_PORT': '1234'.* became"):
        suite.check_complete_environment([{**one, "after": told(0, MASTER_PORT="29500")} for one in seen])


def test_variable_missing_sees_ranks_that_train_alone() -> None:
    axes = {"call": "deepspeed", "missing": "MASTER_PORT", "mpi": "alone", "world": 2}
    with pytest.raises(AssertionError, match="rank 0 of 2 trains alone, in a world of 1, and nothing says so"):
        suite.check_variable_missing(axes, alone())
    suite.check_variable_missing(axes, [{"started": refused("RuntimeError", "incomplete")}] * 2)


def test_variable_missing_sees_an_error_without_the_variable() -> None:
    axes = {"call": "reference", "missing": "MASTER_PORT", "mpi": "absent", "world": 2}
    says = "{}: found nothing, while RANK=0 and no mpiexec started this process; expected all. Remedy: torchrun."
    suite.check_variable_missing(axes, [{"started": refused(TOPOLOGY, says.format("MASTER_PORT"), MODULE)}] * 2)
    with pytest.raises(AssertionError, match="rank 0: raised TopologyError: something"):
        suite.check_variable_missing(axes, [{"started": refused(TOPOLOGY, says.format("something"), MODULE)}] * 2)
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_variable_missing(axes, alone())


def test_variable_missing_sees_variables_that_mpi_did_not_set() -> None:
    axes = {"call": "deepspeed", "missing": "RANK", "mpi": "world", "world": 2}
    seen = [{"started": returned(proof(rank)), "after": told(rank)} for rank in (0, 1)]
    suite.check_variable_missing(axes, seen)
    with pytest.raises(AssertionError, match="rank 1: the variables are"):
        suite.check_variable_missing(axes, [seen[0], {**seen[1], "after": told(1, LOCAL_RANK="0")}])


def test_nothing_set_sees_that_mpi_was_not_missed() -> None:
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_nothing_set({"call": "deepspeed", "mpi": "absent"}, [{"started": returned(proof(of=1))}])
    with pytest.raises(AssertionError, match="started raised ModuleNotFoundError"):
        suite.check_nothing_set(
            {"call": "reference", "mpi": "absent"}, [{"started": refused("ModuleNotFoundError", "no mpi4py")}]
        )


def test_mpi_discovery_sees_wrong_local_ranks() -> None:
    axes = {"call": "reference", "hosts": "two"}
    seen = [{"proof": proof(rank, local_rank=0), "after": told(rank, LOCAL_RANK="0"), "port": 1} for rank in (0, 1)]
    suite.check_mpi_discovery(axes, seen)
    with pytest.raises(AssertionError, match="rank 1: local_rank is 1, expected 0"):
        suite.check_mpi_discovery(axes, [seen[0], {**seen[1], "proof": proof(1)}])
    with pytest.raises(AssertionError, match="'MASTER_PORT': '1234'"):
        suite.check_mpi_discovery({**axes, "call": "deepspeed"}, seen)


def test_hostname_command_sees_another_address() -> None:
    seen = {"started": returned(proof(of=1)), "address": "192.0.2.7", "used": "192.0.2.7"}
    suite.check_hostname_command({"answer": "failure"}, [seen])
    with pytest.raises(AssertionError, match=re.escape("MASTER_ADDR is '192.0.2.7', expected '127.0.0.1'")):
        suite.check_hostname_command({"answer": "address"}, [seen])
    with pytest.raises(AssertionError, match="FileNotFoundError"):
        suite.check_hostname_command(
            {"answer": "missing"}, [{**seen, "started": refused("FileNotFoundError", "hostname")}]
        )
    with pytest.raises(NotRun):
        suite.check_hostname_command({"answer": "missing"}, [{**seen, "address": None}])


def test_another_mpi_sees_ranks_that_train_alone() -> None:
    with pytest.raises(AssertionError, match="trains alone"):
        suite.check_another_mpi({"call": "deepspeed"}, alone())
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_another_mpi({"call": "reference"}, alone())


def test_two_jobs_sees_that_they_did_not_collide() -> None:
    works = {"started": returned(proof(of=1))}
    suite.check_two_jobs({"call": "deepspeed", "ports": "own"}, [works, works])
    with pytest.raises(AssertionError, match="the second job: accepted"):
        suite.check_two_jobs({"call": "deepspeed", "ports": "one"}, [works, works])


def test_mpiexec_sees_variables_that_were_there_before() -> None:
    unset = dict.fromkeys(TOLD)
    seen = [{"proof": proof(rank), "mpi": [rank, 2], "before": unset, "after": told(rank)} for rank in (0, 1)]
    suite.check_mpiexec({"world": 2}, seen)
    for change, says in (
        ({"before": told(0)}, "the launcher had set"),
        ({"after": told(0, MASTER_ADDR=None)}, "MASTER_ADDR not set afterwards"),
        ({"mpi": [0, 1]}, "MPI says rank and size"),
    ):
        with pytest.raises(AssertionError, match=says):
            suite.check_mpiexec({"world": 2}, [{**one, **change} for one in seen])


@pytest.mark.parametrize("wrong", suite.WRONG)
@pytest.mark.parametrize("call", ["deepspeed", "reference"])
def test_variables_wrong_sees_that_they_were_accepted(call: str, wrong: str) -> None:
    seen = [{"started": returned(proof(rank)), "seconds": 1.0} for rank in (0, 1)]
    with pytest.raises(AssertionError, match="rank 0: accepted"):
        suite.check_variables_wrong({"call": call, "wrong": wrong}, seen)


def test_variables_wrong_sees_a_wait_beyond_the_timeout() -> None:
    error = refused("ValueError", "TCPStore world size cannot be 0")
    axes = {"call": "deepspeed", "wrong": "world_zero"}
    suite.check_variables_wrong(axes, [{"started": error, "seconds": 1.0}] * 2)
    with pytest.raises(AssertionError, match=re.escape("took 300.0 s to refuse")):
        suite.check_variables_wrong(axes, [{"started": error, "seconds": 300.0}] * 2)


def test_variables_wrong_takes_either_of_two_ranks_0_as_the_late_one() -> None:
    late = {"started": refused("DistNetworkError", TAKEN, "torch.distributed"), "seconds": 0.1}
    first = {"started": refused("DistStoreError", "Timed out waiting for clients", "torch.distributed"), "seconds": 3.0}
    axes = {"call": "deepspeed", "wrong": "rank_twice"}
    suite.check_variables_wrong(axes, [late, first])
    suite.check_variables_wrong(axes, [first, late])
    with pytest.raises(AssertionError, match="rank 1: raised ValueError"):
        suite.check_variables_wrong(axes, [first, {**late, "started": refused("ValueError", TAKEN)}])


def test_local_rank_wrong_sees_an_engine_that_forgot_its_rank() -> None:
    axes = {"call": "deepspeed", "value": "negative", "world": 2}
    right = [{"started": returned(proof(rank, local_rank=-1))} for rank in (0, 1)]
    suite.check_local_rank_wrong(axes, right)
    lost = [{"started": returned(proof(rank, engine_rank=0, engine_world=1))} for rank in (0, 1)]
    with pytest.raises(AssertionError, match="rank 0 of 2: the engine takes itself for rank 0 of 1"):
        suite.check_local_rank_wrong(axes, lost)
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_local_rank_wrong({**axes, "call": "reference"}, right)


def test_port_taken_sees_a_rank_that_waits_on() -> None:
    taken = {"started": refused("DistNetworkError", TAKEN, "torch.distributed"), "seconds": 0.1}
    reset = {"started": refused("DistNetworkError", "Connection reset by peer", "torch.distributed"), "seconds": 2.0}
    suite.check_port_taken({"call": "deepspeed"}, [taken, reset])
    with pytest.raises(AssertionError, match=re.escape("rank 1 waited 8.0 s, with a timeout of 1 s")):
        suite.check_port_taken({"call": "deepspeed"}, [taken, {**reset, "seconds": 8.0}])


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_rank_absent_sees_a_wait_of_another_length(seconds: float) -> None:
    error = refused("DistStoreError", "Timed out after 2 seconds waiting for clients. 1/2", "torch.distributed")
    axes = {"call": "deepspeed", "absent": 1}
    suite.check_rank_absent(axes, [{"started": error, "seconds": 2.0}, {"started": None, "seconds": 0.0}])
    with pytest.raises(AssertionError, match="rank 0 waited"):
        suite.check_rank_absent(axes, [{"started": error, "seconds": seconds}, {"started": None, "seconds": 0.0}])


def test_collective_timeout_sees_a_reduction_that_returned() -> None:
    peer = {"proof": proof(1)}
    waiting = {"proof": proof(0), "reduced": refused("RuntimeError", "Timed out waiting 5000ms"), "seconds": 5.0}
    suite.check_collective_timeout([waiting, peer])
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_collective_timeout([{**waiting, "reduced": returned(None)}, peer])
    with pytest.raises(AssertionError, match="rank 0 waited 600"):
        suite.check_collective_timeout([{**waiting, "seconds": 600.0}, peer])


def test_timeout_by_environment_sees_the_default() -> None:
    suite.check_timeout_by_environment({"minutes": 3}, [{"seconds": returned(180.0)}])
    with pytest.raises(AssertionError, match="expected 180"):
        suite.check_timeout_by_environment({"minutes": 3}, [{"seconds": returned(600.0)}])
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_timeout_by_environment({"minutes": "half"}, [{"seconds": returned(600.0)}])


def test_accelerator_by_environment_sees_another_backend() -> None:
    right = {"device": "cpu", "backend": "gloo", "proof": proof(of=1)}
    suite.check_accelerator_by_environment({"name": "cpu"}, [{"chosen": returned(right)}])
    with pytest.raises(AssertionError, match="'ccl'"):
        suite.check_accelerator_by_environment({"name": "cpu"}, [{"chosen": returned({**right, "backend": "ccl"})}])


def test_restart_sees_a_start_that_failed_on_one_rank() -> None:
    right = [{f"start_{number}": returned(proof(rank)) for number in (1, 2, 3)} for rank in (0, 1)]
    suite.check_restart(right)
    failed = {**right[1], "start_2": refused("RuntimeError", "Gloo connectFullMesh failed")}
    del failed["start_3"]
    with pytest.raises(AssertionError, match="start_2 raised RuntimeError: Gloo connectFullMesh failed"):
        suite.check_restart([right[0], failed])
    other = {**right[0], "start_3": returned(proof(0, digest="another"))}
    other_peer = {**right[1], "start_3": returned(proof(1, digest="another"))}
    with pytest.raises(AssertionError, match="the starts gave different weights"):
        suite.check_restart([other, other_peer])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ranks": [None, None]}, "left no observation"),
        ({"exits": [1]}, "exit codes are [1], expected 0"),
        ({"exits": [None]}, "exit codes are [None], expected 0"),
    ],
)
def test_launcher_sees(change: dict[str, Any], says: str) -> None:
    axes = {"launcher": "torchrun", "call": "deepspeed"}
    ranks = [{"proof": proof(rank), "told": told(rank), "arguments": []} for rank in (0, 1)]
    right = {"ranks": ranks, "exits": [0], "output": "the end"}
    suite.check_launcher(axes, [right])
    with pytest.raises(AssertionError, match=re.escape(says)):
        suite.check_launcher(axes, [{**right, **change}])
    with pytest.raises(AssertionError, match=re.escape("added the arguments []")):
        suite.check_launcher({**axes, "launcher": "deepspeed"}, [right])
