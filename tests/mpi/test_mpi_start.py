"""Making a group: ranks from variables or from MPI, and what is refused before anything hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from conformance.hosts import mpi_library
from conformance.reference import mpi_transport
from conformance.reference.errors import MpiError
from conformance.reference.mpi_transport import Member
from tests.mpi.mpi_jobs import HERE, ROOT, Starter

SCRIPT = str(HERE / "start_in_ranks.py")


def test_without_mpi4py_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_transport.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MpiError, match="pip install mpi4py"):
        mpi_transport.register()


@pytest.mark.parametrize(("initialised", "over", "text"), [(True, True, "finalised"), (False, False, "Init_thread")])
def test_mpi_that_does_not_run(monkeypatch: pytest.MonkeyPatch, initialised: bool, over: bool, text: str) -> None:
    mpi = SimpleNamespace(Is_finalized=lambda: over, Is_initialized=lambda: initialised)
    monkeypatch.setattr(mpi_transport, "import_mpi", lambda: mpi)
    with pytest.raises(MpiError, match=text):
        mpi_transport.create(SimpleNamespace())


def test_registering_does_not_start_mpi() -> None:
    code = (
        "import sys; from conformance.reference import mpi_transport; mpi_transport.register();"
        "mpi_transport.register(); assert 'mpi4py.MPI' not in sys.modules;"
        "import torch.distributed as dist; assert dist.Backend('mpi4py') == 'mpi4py';"
        "assert dist.Backend.default_device_backend_map['cpu'] == 'gloo'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120, stdin=subprocess.DEVNULL)


def test_members_of_one_world_are_accepted_in_any_order() -> None:
    mpi_transport.refuse_strangers([Member(3, 4, "MPICH 5"), Member(0, 4, "MPICH 5")])


@pytest.mark.parametrize(
    "members",
    [
        [Member(0, 1, "MPICH 5"), Member(0, 1, "MPICH 5")],
        [Member(0, 2, "MPICH 5"), Member(1, 3, "MPICH 5")],
        [Member(0, 2, "MPICH 5"), Member(0, 2, "MPICH 5")],
    ],
)
def test_members_of_several_worlds_are_refused_by_name(members: list[Member]) -> None:
    with pytest.raises(MpiError) as caught:
        mpi_transport.refuse_strangers(members)
    assert "torch's rank 1 is MPI's" in str(caught.value) and "MPICH 5" in str(caught.value)


def test_ranks_from_variables_and_from_mpi(start: Starter, tmp_path: Path) -> None:
    ended = start(2, [SCRIPT, "env", str(tmp_path / "mit Raum")])
    assert ended.code == 0, ended.output


def test_processes_that_mpiexec_did_not_join_are_refused_and_so_is_mpi_that_is_over(
    start: Starter, tmp_path: Path
) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    changes = mpi_library.environment(start.mpi, environ)
    environ = {name: value for name, value in {**environ, **changes}.items() if value is not None}
    processes = [
        subprocess.Popen(
            [sys.executable, SCRIPT, "strangers", str(tmp_path)],
            env={**environ, "RANK": str(rank)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for rank in range(2)
    ]
    try:
        for process in processes:
            output = process.communicate(timeout=120)[0].decode("utf-8", errors="replace")
            assert process.returncode == 0, output
            assert "torch's rank 0 is MPI's 0 of 1" in output and "torch's rank 1 is MPI's 0 of 1" in output
            assert "before MPI.Finalize()" in output
    finally:
        for process in processes:
            process.kill()
