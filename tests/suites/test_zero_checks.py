"""The checks of the zero suite's features can fail, and its schedules are the ones it says they are."""

from __future__ import annotations

import math
from typing import Any

import pytest

from conformance.model.verdict import Unsupported
from conformance.oracle.trajectory import DTYPES, trajectory
from conformance.suites import zero
from conformance.suites.common import training


def right(asked: Any, stage: int = 2, **more: Any) -> list[dict[str, Any]]:
    """What two ranks report after the oracle's own training."""
    answer = trajectory(asked)
    return [
        {
            "supports_dtype": True,
            "device": "cpu",
            "asked_transport": "gloo",
            "rank": rank,
            "world": asked.world,
            "transport": "gloo",
            "stage": stage,
            "steps": asked.steps,
            "computing_dtypes": [str(DTYPES[asked.dtype])],
            "master_dtypes": ["torch.float32"],
            "losses": list(answer.losses),
            "gradient_norms": [],
            "digest": "same",
            "computing_digest": "same",
            **({"weights": dict(answer.weights), "computing": dict(answer.weights)} if rank == 0 else {}),
            **more,
        }
        for rank in range(asked.world)
    ]


AXES = {"stage": 2, "dtype": "fp32", "world": 2}


def test_features_must_be_told_by_the_engine() -> None:
    axes = {**AXES, "feature": "reduce_scatter_off"}
    asked = training.question(axes)
    zero.check_feature(axes, right(asked, told={"optimizer.reduce_scatter": False}, partitioned=0), {})
    with pytest.raises(AssertionError, match="rank 0: the engine says"):
        zero.check_feature(axes, right(asked, told={"optimizer.reduce_scatter": True}, partitioned=0), {})
    refusal = (
        "AssertionError: gradient_predivide_factor != 1.0 is not yet supported with ZeRO-2 with reduce scatter enabled"
    )
    with pytest.raises(Unsupported):
        zero.check_feature(axes, [{"refused_feature": refusal}] * 2, {})
    with pytest.raises(AssertionError, match=r"reduce_scatter_off raised .KeyError"):
        zero.check_feature(axes, [{"refused_feature": "KeyError: 'x'"}] * 2, {})


@pytest.mark.parametrize(
    "feature,told,partitioned,groups,message",
    [
        ("persist_nothing", {"zero_param_persistence_threshold": 0}, 3, 1, "3 tensors are partitioned"),
        ("persist_everything", {"zero_param_persistence_threshold": 10**6}, 3, 1, "3 tensors are partitioned"),
        ("sub_groups_small", {"zero_sub_group_size": 500}, 3, 1, "1 sub-groups"),
    ],
)
def test_settings_of_stage_3_must_show(
    feature: str, told: dict[str, int], partitioned: int, groups: int, message: str
) -> None:
    axes = {**AXES, "stage": 3, "feature": feature}
    observations = right(training.question(axes), 3, told=told, partitioned=partitioned, groups=groups)
    with pytest.raises(AssertionError, match=message):
        zero.check_feature(axes, observations, {})


@pytest.mark.parametrize("schedule", sorted(zero.SCHEDULES))
def test_a_schedule_that_is_a_step_ahead_fails(schedule: str) -> None:
    axes = {**AXES, "schedule": schedule}
    asked = zero.scheduled_question(axes)
    zero.check_schedule(axes, right(asked, rates=list(asked.rates)), {})
    ahead = [*asked.rates[1:], asked.rates[-1]]
    with pytest.raises(AssertionError, match="the learning rates are"):
        zero.check_schedule(axes, right(asked, rates=ahead), {})


def test_schedules_move_and_differ() -> None:
    rates = [tuple(zero.SCHEDULES[name][1]) for name in zero.SCHEDULES if name != "callable"]
    assert all(len(set(each)) > 2 for each in rates)
    assert len(set(rates)) == len(rates)


@pytest.mark.parametrize("optimizer", sorted(zero.OPTIMIZERS))
def test_another_optimizer_fails_by_its_class_and_by_its_numbers(optimizer: str) -> None:
    axes = {**AXES, "optimizer": optimizer}
    asked = zero.optimizer_question(axes)
    kind = zero.OPTIMIZERS[optimizer][2]
    zero.check_optimizer(axes, right(asked, basic_optimizer=kind), {})
    with pytest.raises(AssertionError, match="the optimizers are"):
        zero.check_optimizer(axes, right(asked, basic_optimizer="torch.optim.nadam.NAdam"), {})
    other = "sgd" if optimizer != "sgd" else "adam"
    with pytest.raises(AssertionError, match="not the oracle's training"):
        numbers = zero.optimizer_question({**axes, "optimizer": other})
        zero.check_optimizer(axes, right(numbers, basic_optimizer=kind), {})


def test_one_group_in_place_of_two_fails_by_its_numbers() -> None:
    asked = zero.grouped_question(AXES)
    zero.check_parameter_groups(AXES, right(asked, group_count=2), {})
    with pytest.raises(AssertionError, match="there are not two groups"):
        zero.check_parameter_groups(AXES, right(asked, group_count=1), {})
    with pytest.raises(AssertionError, match=r"not the oracle's training: .*weights off by"):
        zero.check_parameter_groups(AXES, right(training.question(AXES), group_count=2), {})


def test_a_loop_may_be_refused_where_the_contract_says_so() -> None:
    axes = {**AXES, "loop": "no_sync"}
    refusal = "AssertionError: no_sync context manager is incompatible with gradient partitioning logic of ZeRO stage 2"
    with pytest.raises(Unsupported):
        zero.check_loop(axes, [{"refused_loop": refusal}] * 2, {})
    with pytest.raises(AssertionError, match="this loop is documented for every stage"):
        zero.check_loop({**axes, "loop": "evaluate_between"}, [{"refused_loop": refusal}] * 2, {})


def test_activations_must_be_recomputed() -> None:
    axes = {**AXES, "by": "torch", "model": "transformer"}
    asked = training.question(axes)
    zero.check_activation_checkpointing(axes, right(asked, forwards=4 * asked.steps), {})
    with pytest.raises(AssertionError, match="the blocks ran 8 times, expected 16"):
        zero.check_activation_checkpointing(axes, right(asked, forwards=2 * asked.steps), {})


def test_whole_parameters_after_zero_init_fail() -> None:
    asked = training.question(AXES)
    zero.check_zero_init(AXES, right(asked, 3, sizes=[0]), {})
    with pytest.raises(AssertionError, match=r"parameters held \[0, 62\] weights"):
        zero.check_zero_init(AXES, right(asked, 3, sizes=[0, 62]), {})


def test_the_oracle_leaves_out_steps_that_overflow() -> None:
    axes = {**AXES, "dtype": "fp16"}
    asked = zero.overflow_question(axes)
    norms = trajectory(asked).gradient_norms
    left_out = sum(not math.isfinite(norm) for norm in norms)
    assert 0 < left_out < asked.steps
    assert not any(map(math.isfinite, norms[:left_out])), "once a step was taken, none overflows"
    good = right(asked, skipped_steps=left_out, scale=2.0 ** (24 - left_out))
    for each in good:
        if "computing" in each:
            each["computing"] = {
                name: array.astype("float16").astype("float32") for name, array in each["weights"].items()
            }
    zero.check_overflow(axes, good, {})
    with pytest.raises(AssertionError, match="left out 0 steps"):
        zero.check_overflow(axes, [{**each, "skipped_steps": 0} for each in good], {})
    with pytest.raises(AssertionError, match="the loss scale is 16777216"):
        zero.check_overflow(axes, [{**each, "scale": 2.0**24} for each in good], {})


def test_two_engines_that_share_their_weights_fail() -> None:
    asked = training.question(AXES)
    beside = right(training.reseeded(asked))
    zero.check_two_engines(
        AXES, [{**one, "beside": other} for one, other in zip(right(asked), beside, strict=True)], {}
    )
    with pytest.raises(AssertionError, match="not the oracle's training"):
        zero.check_two_engines(AXES, [{**one, "beside": one} for one in right(asked)], {})
