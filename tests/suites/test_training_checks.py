"""The checks of the zero and checkpoint suites hold for right observations, and each can fail."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from conformance.model.verdict import Unsupported
from conformance.oracle.trajectory import DTYPES, trajectory
from conformance.suites import checkpoint, zero
from conformance.suites.common import checks, training

Observations = list[dict[str, Any]]
AXES = {"stage": 2, "dtype": "bf16", "world": 2, "accumulation": 2, "clipping": True}


def right(axes: dict[str, Any] = AXES, *, steps: int = training.STEPS) -> Observations:
    """What two ranks report after the oracle's own training."""
    asked = training.question(axes, steps=steps)
    answer = trajectory(asked)
    dtype = DTYPES[asked.dtype]
    computing = {name: torch.from_numpy(array).to(dtype).float().numpy() for name, array in answer.weights.items()}
    return [
        {
            "supports_dtype": True,
            "device": "cpu",
            "asked_transport": "gloo",
            "rank": rank,
            "world": asked.world,
            "transport": "gloo",
            "stage": axes["stage"],
            "accumulation": asked.accumulation,
            "clipping": asked.clipping,
            "steps": steps,
            "skipped_steps": 0,
            "computing_dtypes": [str(dtype)],
            "master_dtypes": ["torch.float32"],
            "optimizer": "DeepSpeedZeroOptimizer",
            "basic_optimizer": "torch.optim.adamw.AdamW",
            "partition_gradients": True,
            "master_numel": 2710,
            "state_numel": {"exp_avg": 2710, "exp_avg_sq": 2710},
            "partitioned": 0,
            "shard_numel": 5417,
            "losses": list(answer.losses),
            "gradient_norms": list(answer.gradient_norms),
            "digest": training.digest(answer.weights),
            "computing_digest": training.digest(computing),
            **({"weights": dict(answer.weights), "computing": computing} if rank == 0 else {}),
        }
        for rank in range(asked.world)
    ]


def run_train(observations: Observations, axes: dict[str, Any] = AXES) -> dict[str, float]:
    measured: dict[str, float] = {}
    zero.check_train(axes, observations, measured)
    return measured


def test_right_training_passes_and_is_measured() -> None:
    measured = run_train(right())
    assert measured["weights_error"] == 0 < measured["weights_error_tolerance"] < 0.1
    assert {"loss_error", "gradient_norm_error", "stride_error"} <= measured.keys()


def change(name: str, value: Any, rank: int = 1) -> Callable[[Observations], object]:
    return lambda observations: observations[rank].update({name: value})


def both(name: str, value: Any) -> Callable[[Observations], object]:
    return lambda observations: [each.update({name: value}) for each in observations]


def other_weights(observations: Observations) -> None:
    moved = {name: array * np.float32(1.01) for name, array in observations[0]["weights"].items()}
    observations[0]["weights"] = moved
    observations[0]["computing"] = {
        name: torch.from_numpy(array).to(torch.bfloat16).float().numpy() for name, array in moved.items()
    }


def rounded_masters(observations: Observations) -> None:
    observations[0]["weights"] = observations[0]["computing"]


PLANTED = {
    "a rank is missing": (lambda each: each.pop(), "1 ranks reported, 2 were asked for"),
    "each rank is alone": (both("world", 1), r"\[\(0, 1\), \(1, 1\)\], expected \[\(0, 2\), \(1, 2\)\]"),
    "ranks disagree on weights": (change("digest", "else"), "the ranks disagree on digest: .*rank 1 has else"),
    "ranks disagree on norms": (change("gradient_norms", [1.0]), "the ranks disagree on gradient_norms"),
    "stage 0 in place of 2": (both("stage", 0), "rank 0: stage is 0, expected 2"),
    "another transport": (change("transport", "nccl"), "rank 1: transport is 'nccl', expected 'gloo'"),
    "accumulation ignored": (both("accumulation", 1), "accumulation is 1, expected 2"),
    "DeepSpeed's default clipping": (both("clipping", 1.0), "clipping is 1.0, expected 0.2"),
    "a step was skipped": (both("skipped_steps", 1), "skipped_steps is 1, expected 0"),
    "computes in float32": (both("computing_dtypes", ["torch.float32"]), "computing_dtypes is .*float32"),
    "masters in bf16": (both("master_dtypes", ["torch.bfloat16"]), "master_dtypes is .*bfloat16"),
    "another optimizer": (both("basic_optimizer", "torch.optim.sgd.SGD"), "basic_optimizer is 'torch.optim.sgd.SGD'"),
    "no ZeRO optimizer": (both("optimizer", "AdamW"), "optimizer is 'AdamW', expected 'DeepSpeedZeroOptimizer'"),
    "gradients not partitioned": (both("partition_gradients", False), "partition_gradients is False, expected True"),
    "weights not partitioned": (change("master_numel", 5417), "rank 1 of 2 holds 5417 of 5417 float32 weights"),
    "state not partitioned": (change("state_numel", {"exp_avg": 5417}), "rank 1 of 2 holds 5417 of 5417 exp_avg"),
    "weights fall between ranks": (both("master_numel", 2705), "the ranks hold 5410 weights together"),
    "a wrong loss": (change("losses", [0.5, 0.5, 0.5, 0.5]), "not the oracle's training: loss off by"),
    "a loss that is no number": (change("losses", [float("nan")] * 4), "losses are not finite"),
    "a wrong norm": (both("gradient_norms", [9.0] * 4), "gradient norm off by"),
    "wrong weights": (other_weights, "not the oracle's training: .*weights off by"),
    "the model computes with something else": (
        lambda each: each[0].update(computing=each[0]["weights"]),
        "are not the float32 copy rounded to bf16",
    ),
    "no float32 copy": (rounded_masters, "there is no float32 copy"),
}


@pytest.mark.parametrize("plant,message", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_error_fails_the_training_check(plant: Callable[[Observations], object], message: str) -> None:
    observations = copy.deepcopy(right())
    plant(observations)
    with pytest.raises(AssertionError, match=message):
        run_train(observations)


def test_stage_3_must_partition_its_parameters() -> None:
    axes = {**AXES, "stage": 3}
    partitioned = {"optimizer": "DeepSpeedZeroOptimizer_Stage3", "partition_gradients": False, "partitioned": 3}
    observations = right(axes)
    for each in observations:
        each.update(partitioned, shard_numel=2709)
    run_train(observations, axes)
    observations[1]["partitioned"] = 0
    with pytest.raises(AssertionError, match="rank 1: partitioned is 0, expected 3"):
        run_train(observations, axes)
    observations[1].update(partitioned=3, shard_numel=5417)
    with pytest.raises(AssertionError, match="rank 1 holds 5417 of 5417 weights in stage 3"):
        run_train(observations, axes)


def test_a_refusal_of_fp16_is_judged_by_what_the_accelerator_says() -> None:
    axes = {**AXES, "dtype": "fp16"}
    refused = "ValueError: Type fp16 is not supported on your device."
    both_refuse = [{"supports_dtype": False, "refused": refused}] * 2
    with pytest.raises(Unsupported, match="Type fp16 is not supported"):
        run_train(both_refuse, axes)
    with pytest.raises(AssertionError, match="the accelerator says it supports fp16, and yet"):
        run_train([{**each, "supports_dtype": True} for each in both_refuse], axes)
    with pytest.raises(AssertionError, match=r"expected 'ValueError: Type fp16"):
        run_train([both_refuse[0], {"supports_dtype": False, "refused": "ValueError: no"}], axes)
    with pytest.raises(AssertionError, match=r"found .*None"):
        run_train([both_refuse[0], {"supports_dtype": False, "losses": []}], axes)


RESUME_AXES = {"stage": 2, "dtype": "bf16", "world": 2}


def resumed() -> list[Observations]:
    """A save and a resume that are what they should be."""
    steps = checkpoint.BEFORE + checkpoint.AFTER
    saved, loaded = right(RESUME_AXES, steps=steps), right(RESUME_AXES, steps=steps)
    for each in [*saved, *loaded]:
        each["losses"] = each["losses"][checkpoint.BEFORE :]
    for each in saved:
        each["saved"] = "as saved"
    for each in loaded:
        each.update(fresh="fresh", loaded="as saved", client_state=checkpoint.CLIENT_STATE)
        each["counts_after_load"] = dict(checkpoint.COUNTS)
    return [saved, loaded]


def test_a_right_resume_passes() -> None:
    checkpoint.check_resume(RESUME_AXES, resumed())


def loaded_nothing(steps: list[Observations]) -> None:
    for each in steps[1]:
        each.update(loaded="fresh")


def last_bit(steps: list[Observations]) -> None:
    name = "second.weight"
    array = steps[1][0]["weights"][name].copy()
    array[0, 0] = np.nextafter(array[0, 0], np.float32(9))
    steps[1][0]["weights"] = {**steps[1][0]["weights"], name: array}


BAD_RESUMES = {
    "a load that does nothing": (loaded_nothing, "loading changed nothing"),
    "a load of something else": (lambda steps: [each.update(loaded="x") for each in steps[1]], "loading gave other"),
    "the same seed": (lambda steps: steps[1][0].update(fresh="as saved"), "already had the saved weights"),
    "ranks loaded unlike weights": (lambda steps: steps[1][1].update(loaded="x"), "the ranks disagree on loaded"),
    "the client state is lost": (lambda steps: [each.update(client_state=None) for each in steps[1]], "came back as"),
    "the step count is lost": (
        lambda steps: [each["counts_after_load"].update(global_steps=0) for each in steps[1]],
        "the engine counts .*'global_steps': 0.* saved were .*'global_steps': 3",
    ),
    "another loss": (lambda steps: steps[1][1].update(losses=[0.1, 0.2, 0.3]), "rank 1: after the resume the losses"),
    "one bit of one weight": (last_bit, "after the resume other weights .*second.weight off by up to"),
    "another stage": (lambda steps: [each.update(stage=0) for each in steps[1]], "stage is 0, expected 2"),
}


@pytest.mark.parametrize("plant,message", BAD_RESUMES.values(), ids=BAD_RESUMES.keys())
def test_a_planted_error_fails_the_resume_check(plant: Callable[[list[Observations]], object], message: str) -> None:
    steps = copy.deepcopy(resumed())
    plant(steps)
    with pytest.raises(AssertionError, match=message):
        checkpoint.check_resume(RESUME_AXES, steps)


def test_zero_signs_count_as_bits() -> None:
    one = [{"losses": [], "weights": {"a": np.zeros(1, np.float32)}, "digest": "1"}]
    other = [{"losses": [], "weights": {"a": -np.zeros(1, np.float32)}, "digest": "2"}]
    with pytest.raises(AssertionError, match="sign of zeros"):
        checks.same_training(one, other)
