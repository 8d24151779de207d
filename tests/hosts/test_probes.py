"""Probes: each names what is missing and the remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conformance.hosts import cuda, probes
from conformance.model.record import GpuInfo
from conformance.model.verdict import NotRun

GPU = GpuInfo(name="A GPU", memory_bytes=1 << 34)


def lack(need: str) -> NotRun:
    with pytest.raises(NotRun) as caught:
        probes.check(need)
    return caught.value


def test_a_foreign_operating_system_names_this_one() -> None:
    here, there = ("windows", "linux") if sys.platform == "win32" else ("linux", "windows")
    probes.check(f"os:{here}")
    assert here.capitalize() in lack(f"os:{there}").lacks


def test_gpus_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "gpus", lambda *_: (GPU,))
    probes.check("gpus:1")
    assert str(lack("gpus:2")).startswith("needs 2 GPUs, found 1; ")


def test_visible_devices_limit_the_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'Fast GPU, 1000'\necho 'Slow, GPU, 500'\n", encoding="utf-8")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if sys.platform == "win32":
        pytest.skip("needs a script that runs without a suffix")
    assert [gpu.name for gpu in probes.gpus.__wrapped__()] == ["Fast GPU", "Slow, GPU"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [gpu.memory_bytes >> 20 for gpu in probes.gpus.__wrapped__()] == [500]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert probes.gpus.__wrapped__() == ()


@pytest.mark.parametrize(
    ("gpus", "build", "facts", "need", "said"),
    [
        ((), None, cuda.CudaFacts(), "cuda", "an NVIDIA GPU, found none"),
        ((GPU,), None, cuda.CudaFacts(), "cuda", "a CUDA build of torch, found a CPU build"),
        ((GPU,), "12.6", cuda.CudaFacts(problem="boom"), "cuda", "a GPU that torch can use (boom)"),
        ((GPU,), "12.6", cuda.CudaFacts(count=1), "nccl", "NCCL in torch, found none"),
        ((GPU,), "12.6", cuda.CudaFacts(1, "2.27.3", ((True,),)), "peers:2", "peer access between 2 GPUs"),
        ((GPU,), "12.6", cuda.CudaFacts(2, "2.27.3", ((True, False), (False, True))), "peers:2", "peer access"),
    ],
)
def test_each_step_to_nccl_has_its_own_reason(
    monkeypatch: pytest.MonkeyPatch,
    gpus: tuple[GpuInfo, ...],
    build: str | None,
    facts: cuda.CudaFacts,
    need: str,
    said: str,
) -> None:
    monkeypatch.setattr(probes, "gpus", lambda *_: gpus)
    monkeypatch.setattr(probes, "cuda_of_torch", lambda: build)
    monkeypatch.setattr(probes, "cuda_facts", lambda *_: facts)
    found = lack(need)
    assert said in found.lacks
    assert found.remedy


def test_a_host_with_everything_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "gpus", lambda *_: (GPU, GPU))
    monkeypatch.setattr(probes, "cuda_of_torch", lambda: "12.6")
    monkeypatch.setattr(probes, "cuda_facts", lambda *_: cuda.CudaFacts(2, "2.27.3", ((True, True), (True, True))))
    for need in ("cuda", "nccl", "gpus:2", "peers:2"):
        probes.check(need)


def test_torch_is_really_asked() -> None:
    facts = cuda.cuda_facts.__wrapped__()
    assert not facts.problem
    assert (facts.count > 0) <= (cuda.cuda_of_torch() is not None)


@pytest.mark.parametrize("need", ["module:no_such_module", "command:no-such-command", "memory:1000000"])
def test_a_remedy_is_always_given(need: str) -> None:
    assert lack(need).remedy
