"""The checks of the gpu suite can fail: with what two ranks on GPUs would tell, each part wrong in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.model.setting import Axes
from conformance.oracle.trajectory import DTYPES, trajectory
from conformance.suites import gpu
from conformance.suites.common import training

AXES: Axes = {"stage": 2, "dtype": "fp32", "world": 2}
Check = Callable[..., None]


def right(*, masters: str = "", pinned: bool = False, optimizer: str = "torch.optim.adamw.AdamW") -> list[Any]:
    """What two ranks report after the oracle's own training on a GPU each."""
    asked = training.question(AXES)
    answer = trajectory(asked)
    return [
        {
            "supports_dtype": True,
            "device": "cuda",
            "asked_transport": "nccl",
            "transport": "nccl",
            "rank": rank,
            "world": 2,
            "stage": 2,
            "steps": asked.steps,
            "computing_dtypes": [str(DTYPES[asked.dtype])],
            "master_dtypes": ["torch.float32"],
            "basic_optimizer": optimizer,
            "state_devices": [masters or f"cuda:{rank}"],
            "losses": list(answer.losses),
            "gradient_norms": [],
            "digest": "same",
            "computing_digest": "same",
            "places": {
                "own_device": f"cuda:{rank}",
                "gpu": f"GPU-{rank}",
                "parameter_devices": [f"cuda:{rank}"],
                "master_devices": [masters or f"cuda:{rank}"],
                "pinned": [pinned],
                "overlap": True,
            },
            **({"weights": dict(answer.weights), "computing": dict(answer.weights)} if rank == 0 else {}),
        }
        for rank in range(2)
    ]


CASES: list[tuple[Check, dict[str, Any], list[Any]]] = [
    (gpu.check_parameters, {}, right()),
    (gpu.check_fused_adam, {}, right(optimizer=gpu.FUSED_ADAM)),
    (gpu.check_offload, {"pinned": True}, right(masters="cpu", pinned=True)),
    (gpu.check_overlap, {"overlap": True}, right()),
]


@pytest.mark.parametrize(("check", "axes", "observations"), CASES)
def test_what_is_right_passes(check: Check, axes: Axes, observations: list[Any]) -> None:
    check({**AXES, **axes}, observations, {})


@pytest.mark.parametrize(("check", "axes", "observations"), CASES)
@pytest.mark.parametrize(
    ("place", "wrong", "says"),
    [
        ("own_device", "cpu", "expected a GPU"),
        ("gpu", "GPU-0", "ranks share a GPU"),
        ("parameter_devices", ["cpu"], "the parameters are on"),
        ("master_devices", ["cuda:7"], "the float32 copies are on"),
    ],
)
def test_what_is_elsewhere_fails(
    check: Check, axes: Axes, observations: list[Any], place: str, wrong: Any, says: str
) -> None:
    spoilt = [observations[0], {**observations[1], "places": {**observations[1]["places"], place: wrong}}]
    with pytest.raises(AssertionError, match=says):
        check({**AXES, **axes}, spoilt, {})


@pytest.mark.parametrize(("check", "axes", "observations"), CASES)
def test_states_elsewhere_and_another_training_fail(check: Check, axes: Axes, observations: list[Any]) -> None:
    with pytest.raises(AssertionError, match="the optimizer states are on"):
        check({**AXES, **axes}, [{**each, "state_devices": ["cuda:7"]} for each in observations], {})
    with pytest.raises(AssertionError, match="not the oracle's training"):
        check({**AXES, **axes}, [{**each, "losses": [9.0] * len(each["losses"])} for each in observations], {})


def test_what_was_asked_for_must_be_on() -> None:
    with pytest.raises(AssertionError, match="page-locked"):
        gpu.check_offload({**AXES, "pinned": False}, right(masters="cpu", pinned=True), {})
    with pytest.raises(AssertionError, match="the optimizers are"):
        gpu.check_fused_adam(AXES, right(), {})
    with pytest.raises(AssertionError, match="overlap_comm is"):
        gpu.check_overlap({**AXES, "overlap": False}, right(), {})
