"""Which transport is chosen on which ground, and which is refused."""

from __future__ import annotations

import types

import pytest

from conformance.reference import Topology, TransportError, choose_transport
from conformance.reference import transport as module
from conformance.reference.transport import Ground, make_ready

BOTH = frozenset({"gloo", "nccl"})
CPU = Ground("linux", "cpu", frozenset({"gloo"}), "gloo")
CUDA = Ground("linux", "cuda", BOTH, "nccl")
WINDOWS_CPU = Ground("win32", "cpu", frozenset({"gloo"}), "gloo")
WINDOWS_CUDA = Ground("win32", "cuda", frozenset({"gloo"}), "gloo")


@pytest.mark.parametrize(
    ("asked", "ground", "chosen"),
    [
        ("auto", CPU, "gloo"),
        ("auto", CUDA, "nccl"),
        ("auto", WINDOWS_CPU, "gloo"),
        ("auto", WINDOWS_CUDA, "gloo"),
        ("auto", Ground("linux", "cpu", BOTH, "gloo"), "gloo"),  # CUDA's torch on a machine without GPU
        ("auto", Ground("linux", "cpu", frozenset({"gloo"}), "ccl"), "gloo"),  # INIT-28: oneCCL importable
        ("auto", Ground("linux", "xpu", frozenset({"gloo"}), "ccl"), "ccl"),
        ("gloo", CUDA, "gloo"),
        ("gloo", WINDOWS_CUDA, "gloo"),
        ("nccl", CUDA, "nccl"),
        ("mpi", CPU, "mpi"),
        ("mpi", WINDOWS_CPU, "mpi"),
    ],
)
def test_chosen(asked: str, ground: Ground, chosen: str) -> None:
    assert choose_transport(asked, ground) == chosen


@pytest.mark.parametrize(
    ("asked", "ground", "words"),
    [
        ("smoke signals", CPU, "expected one of auto, gloo, nccl, mpi"),
        ("nccl", WINDOWS_CUDA, "PyTorch's Windows builds have no NCCL"),
        ("nccl", CPU, "which this build of torch does not have; expected one that it has: gloo"),
        ("nccl", Ground("linux", "cpu", BOTH, "gloo"), "'nccl' for device cpu"),
        ("gloo", Ground("linux", "cuda", frozenset({"nccl"}), "nccl"), "expected one that it has: nccl"),
        ("mpi", CUDA, "'mpi' for device cuda"),
    ],
)
def test_refused(asked: str, ground: Ground, words: str) -> None:
    with pytest.raises(TransportError) as caught:
        choose_transport(asked, ground)
    assert caught.value.subject == "transport"
    assert words in str(caught.value)


def test_mpi_is_refused_where_its_world_does_not_hold_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    world = types.SimpleNamespace(Get_size=lambda: 1)
    monkeypatch.setattr(module, "import_mpi", lambda: types.SimpleNamespace(COMM_WORLD=world))
    with pytest.raises(TransportError, match="'mpi' for a job of 2 ranks, of which MPI's world holds 1"):
        make_ready("mpi", Topology(1, 2, 1, 2, "127.0.0.1", 4000, "env"))


def test_the_other_transports_are_torchs_own() -> None:
    assert [make_ready(name, Topology.alone()) for name in ("gloo", "nccl", "ccl")] == ["gloo", "nccl", "ccl"]
