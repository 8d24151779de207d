"""What checks share: the judgement of proofs and attempts that `observing` made. Pure; needs no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from conformance.model.setting import Observation

TOLERANCE = 1e-6
"""Largest difference of a weight from the plain steps, in float32.

A gradient here is a mean of at most 32 products of numbers near 1, so that another order of summation changes it by at
most 32 x 2^-24 = 2e-6 of its size. Adam turns a relative change d of a gradient into at most lr x d / 4 = 5e-9 a step,
SGD with the same rate into 2e-8; rounding weights below 1 adds 6e-8 a step. At most 4 steps are taken.
"""

TORCH_ADAMW = "torch.optim.adamw.AdamW"
WRAPPERS = {
    1: "deepspeed.runtime.zero.stage_1_and_2.DeepSpeedZeroOptimizer",
    2: "deepspeed.runtime.zero.stage_1_and_2.DeepSpeedZeroOptimizer",
    3: "deepspeed.runtime.zero.stage3.DeepSpeedZeroOptimizer_Stage3",
}
"""The optimizer that an engine shows, by ZeRO stage; stage 0 shows the basic optimizer itself (float32)."""


def assert_same_everywhere(observations: Sequence[Observation], key: str) -> None:
    """All ranks observed the same under `key`."""
    first = observations[0][key]
    for rank, observation in enumerate(observations):
        found = observation[key]
        assert numpy.array_equal(found, first), f"{key}: rank 0 has {first!r}, rank {rank} has {found!r}"


def assert_works(
    proofs: Sequence[Observation],
    *,
    steps: int = 1,
    stage: int = 0,
    micro_batch: int = 2,
    accumulation: int = 1,
    optimizer: str = TORCH_ADAMW,
    scheduler: str | None = None,
    dtype: str = "float32",
    like_plain: bool = True,
    local_ranks: Sequence[int] | None = None,
) -> None:
    """The proofs of all ranks say: the world and the features that were asked for, and the right weights.

    Args:
        proofs: what `observing.prove` returned, by rank.
        optimizer: the class of the basic optimizer.
        like_plain: whether the weights equal those of the plain steps; False where lower precision forbids it.
        local_ranks: by rank; the ranks themselves by default.
    """
    for rank, proof in enumerate(proofs):
        asked, local_rank = proof["asked"], rank if local_ranks is None else local_ranks[rank]
        device = "cpu" if asked["device"] == "cpu" else f"cuda:{local_rank}"
        expected: dict[str, Any] = {
            "rank": rank,
            "world": asked["world"],
            "engine_rank": rank,
            "engine_world": asked["world"],
            "local_rank": local_rank,
            "transport": asked["transport"],
            "device": device,
            "steps": steps,
            "stage": stage,
            "micro_batch": micro_batch,
            "accumulation": accumulation,
            "train_batch": micro_batch * accumulation * asked["world"],
            "dtype": dtype,
            "basic_optimizer": optimizer,
            "scheduler": scheduler,
        }
        if dtype == "float32":
            expected["optimizer"] = WRAPPERS.get(stage, optimizer)
        for key, value in expected.items():
            assert proof[key] == value, f"rank {rank}: {key} is {proof[key]!r}, expected {value!r}"
        assert not numpy.array_equal(proof["start"], proof["weights"]), f"rank {rank}: training changed no weight"
        if like_plain:
            error = float(numpy.abs(proof["weights"] - proof["plain"]).max())
            assert error <= TOLERANCE, f"rank {rank}: weights are {error:.3g} from plain torch, over {TOLERANCE:g}"
    assert_same_everywhere(proofs, "digest")


def proofs_in(observations: Sequence[Observation], key: str) -> list[Observation]:
    """The proofs under `key`, where each rank's may be an attempt that has to have returned."""
    proofs = []
    for rank, observation in enumerate(observations):
        found = observation[key]
        raised = found.get("raised")
        assert raised is None, f"rank {rank}: {key} raised {_text(raised)}"
        proofs.append(found.get("returned", found))
    return proofs


def assert_refused(observations: Sequence[Observation], key: str, error: str, says: str) -> None:
    """Under `key`, every rank's attempt raised exactly `error`, with `says` somewhere in the message.

    Args:
        error: `module.Class`; a builtin without module.
    """
    for rank, observation in enumerate(observations):
        assert_raised(observation[key], error, says, f"rank {rank}")


def assert_raised(attempted: Observation, error: str, says: str | re.Pattern[str], who: str) -> None:
    """An attempt of `who` raised exactly `error`, and `says` is, or finds something, in the message."""
    raised = attempted.get("raised")
    expected = f"expected {error} saying {says if isinstance(says, str) else says.pattern!r}"
    assert raised is not None, f"{who}: accepted, giving {attempted['returned']!r}; {expected}"
    said = says in raised["message"] if isinstance(says, str) else says.search(raised["message"])
    assert raised_class(attempted) == error and said, f"{who}: raised {_text(raised)}; {expected}"


def raised_class(attempted: Observation) -> str | None:
    """The class of the error that an attempt raised, `module.Class`, a builtin without module; None if it returned."""
    raised = attempted.get("raised")
    if raised is None:
        return None
    kind: str = raised["type"]
    return kind if raised["module"] == "builtins" else f"{raised['module']}.{kind}"


def _text(raised: Mapping[str, Any]) -> str:
    return f"{raised['type']}: {raised['message']}"
