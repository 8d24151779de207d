"""Real processes: alone, two by their environment, two by torchrun, two by mpiexec."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from conformance.hosts import mpi_library
from conformance.model.verdict import NotRun
from tests.reference.processes import PROGRAMS, ROOT, environment, program, ranks, results, run

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def test_importing_it_imports_nothing_heavy_and_nothing_of_the_harness() -> None:
    code = (
        "import sys, conformance.reference\n"
        "heavy = {'torch', 'deepspeed', 'mpi4py', 'pydantic', 'pytest', 'hjson', 'numpy'} & sys.modules.keys()\n"
        "print(heavy, {name for name in sys.modules if name.startswith('conformance.')\n"
        "              and not name.startswith('conformance.reference')})"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert output.stdout.strip() == "set() set()"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    config = tmp_path_factory.mktemp("alone") / "Größe.json"
    (output,) = run([program("alone.py", config)], [{}])
    (found,) = results(output)
    return found


def test_alone_a_process_is_a_job_of_one(alone: dict[str, Any]) -> None:
    assert alone["before"] == {}
    assert alone["topology"] == [1, 0, "none"]
    assert alone["port"]
    assert alone["transport"] == ["gloo", "gloo"]
    assert alone["during"] == ["LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"]


def test_it_returns_what_deepspeed_returns(alone: dict[str, Any]) -> None:
    """INIT-10, INIT-11."""
    assert alone["batches"] == 3
    assert alone["kinds"] == ["DeepSpeedEngine", "WarmupLR"]
    assert alone["same optimizer"]
    assert alone["losses"] == sorted(alone["losses"], reverse=True)
    assert len(set(alone["losses"])) > 1


def test_shutdown_leaves_the_process_as_it_was(alone: dict[str, Any]) -> None:
    assert not alone["up after"]
    assert alone["after"] == {}
    assert alone["in the end"] == [False, {}]
    assert alone["config untouched"]


def test_a_process_group_that_torch_destroyed_is_forgotten(alone: dict[str, Any]) -> None:
    started, loss = alone["after torch ended it"]
    assert started and loss > 0


def test_a_second_engine_shares_the_process_group(alone: dict[str, Any]) -> None:
    assert alone["second"] == [False, True]
    assert alone["up after the second"]


def test_a_running_process_group_is_adopted_and_left_up(alone: dict[str, Any]) -> None:
    """INIT-18."""
    started, launcher, transport, loss = alone["adopted"]
    assert (started, launcher, transport) == (False, "adopted", "gloo")
    assert math.isfinite(loss)
    assert alone["up after adopting"]
    assert alone["adopted anew"] is False
    assert alone["started after that"] is True


@pytest.mark.parametrize(
    ("which", "kind", "words"),
    [
        ("no model", "ModelError", "model: found a dict; expected a torch.nn.Module"),
        ("misspelt", "ConfigError", "zero_optimisation: did you mean zero_optimization?"),
        ("auto", "ConfigError", 'config: found "auto" for gradient_clipping'),
        ("stream", "DataError", "training_data: found a Stream, without __len__"),
        ("sequences", "ConfigError", "config sequence_parallel_size: found 2, without an mpu"),
        ("nccl", "TransportError", "transport: found 'nccl'"),
        ("another topology", "TopologyError", "found rank 0 of 1; expected rank 0 of 2"),
        ("another transport", "TransportError", "found 'mpi', while torch.distributed is already up with gloo"),
        ("against the adopted", "TopologyError", "found rank 0 of 1; expected rank 1 of 2"),
        ("taken", "TransportError", "where rank 0 cannot listen"),
        ("nobody there", "TransportError", "where rank 1 of 2 could not join the others"),
    ],
)
def test_refusals(alone: dict[str, Any], which: str, kind: str, words: str) -> None:
    assert alone[which][0] == kind, alone[which]
    assert words in alone[which][1]


def test_refusals_leave_nothing_behind(alone: dict[str, Any]) -> None:
    assert not alone["up after refusals"]
    assert alone["after failing"] == [False, {}]


def test_nothing_is_compiled(alone: dict[str, Any]) -> None:
    _, loaded = alone["shm_comm"]
    assert not loaded


@pytest.fixture(scope="module")
def sharing() -> dict[str, Any]:
    (output,) = run([program("sharing.py")], [{}])
    (found,) = results(output)
    return found


def test_adopting_a_group_of_the_callers_compiles_nothing(sharing: dict[str, Any]) -> None:
    """It would take a minute, or for ever behind the lock of a build that was killed."""
    assert sharing["adopted"] == [False, True, []]
    assert sharing["still up"]
    assert sharing["compatible"] is True  # left as it was


@pytest.mark.parametrize("stage", [0, 3])
@pytest.mark.parametrize("first", [0, 1])
def test_of_two_engines_the_last_one_ends_the_group(sharing: dict[str, Any], stage: int, first: int) -> None:
    assert sharing[f"stage {stage}, {first} left first"] == [True, False, True]
    assert not sharing[f"stage {stage}, {first} left first: up"]


def test_what_start_began_is_ended_by_shutdown_alone(sharing: dict[str, Any]) -> None:
    assert sharing["started before"]
    assert sharing["held"]
    assert sharing["held by a later start"]
    assert not sharing["let go"]


def test_a_call_that_failed_is_no_user(sharing: dict[str, Any]) -> None:
    assert sharing["up after failing"]
    assert sharing["after failing"]
    assert not sharing["up in the end"]


def check_pair(outputs: list[str], launcher: str, transports: list[list[str]]) -> None:
    """Every stage trained alike, in both ranks, over each transport that was asked for."""
    found = [each for output in outputs for each in results(output)]
    by_rank = sorted((each["steps"] for each in found), key=lambda steps: steps[0]["topology"])
    assert len(by_rank) == 2
    for rank, steps in enumerate(by_rank):
        assert {tuple(step["topology"]) for step in steps} == {(rank, 2, rank, 2, launcher)}
        expected = [(transport, stage) for transport in transports for stage in range(4)]
        assert [(step["transport"], step["stage"]) for step in steps] == expected
    assert by_rank[0][0]["loss"] != by_rank[1][0]["loss"]  # each rank has its own half of the batch
    # fp32: bit for bit the same in all stages, over all transports, in both ranks
    assert len({step["after"] for steps in by_rank for step in steps}) == 1
    assert not any(each["up"] for each in found)


def test_two_ranks_by_their_environment_train_and_start_again() -> None:
    check_pair(run([program("pair.py", "auto")] * 2, ranks(2)), "env", [["gloo", "gloo"]])


def has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.mark.skipif(not socket.has_ipv6 or not has_ipv6(), reason="needs the address ::1: IPv6 on the loopback")
def test_two_ranks_meet_at_an_ipv6_address_in_brackets() -> None:
    """torch looks up the name "[::1]", which nobody has, for longer than the timeout."""
    outputs = run([program("meet.py")] * 2, [each | {"MASTER_ADDR": "[::1]"} for each in ranks(2)])
    found = [each for output in outputs for each in results(output)]
    assert found == [{"sum": 2, "addresses": ["[::1]", "::1", "::1", "[::1]"]}] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="torchrun asks for libuv, which PyTorch's Windows builds lack")
def test_two_ranks_by_torchrun_train_and_start_again() -> None:
    """torchrun keeps one store for all starts, in which a second plain start finds the first one's addresses."""
    check_pair(run([[*TORCHRUN, PROGRAMS / "pair.py", "gloo"]], [{}]), "env", [["gloo", "gloo"]])


def two_ranks_by_mpiexec() -> tuple[list[str], dict[str, str]]:
    """An mpiexec of this host with the variables for its ranks, or a skip that says what is missing."""
    try:
        mpi = mpi_library.find()
    except NotRun as error:
        pytest.skip(str(error))
    changes = mpi_library.environment(mpi, os.environ)
    command = mpi_library.launch_command(mpi, 2, [sys.executable, "-m", "mpi4py"])
    return command, {name: value for name, value in changes.items() if value is not None}


def test_two_ranks_by_mpiexec_train_and_start_again() -> None:
    command, variables = two_ranks_by_mpiexec()
    outputs = run([[*command, PROGRAMS / "pair.py", "gloo", "mpi"]], [variables])
    check_pair(outputs, "mpi", [["gloo", "gloo"], ["mpi", "mpi4py"]])


def test_the_example_of_the_docstring_runs() -> None:
    (output,) = run([[sys.executable, ROOT / "examples" / "train.py"]], [{}])
    losses = [float(line.split()[-1]) for line in output.splitlines() if line.startswith("rank 0 step")]
    assert len(losses) == 5
    assert losses == sorted(losses, reverse=True)


def test_the_example_is_the_one_in_the_docstring() -> None:
    from conformance.reference import initialize

    source = (ROOT / "examples" / "train.py").read_text(encoding="utf-8")
    lines = [line.strip() for line in source.partition("import torch")[2].splitlines() if line.strip()]
    shown = [line.strip() for line in (initialize.__doc__ or "").splitlines()]
    assert [line for line in lines if line not in shown] == []
