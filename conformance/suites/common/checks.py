"""Checks that several suites share. Each raises AssertionError with what was found and what was expected."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

import numpy as np

from conformance.model.setting import Observation
from conformance.model.verdict import Unsupported
from conformance.oracle.question import Question
from conformance.suites.common.training import REFUSED

MLP = {"total": 5417, "tensors": 6, "matrices": 3}
"""The MLP's weights, its tensors, and those that stage 3 partitions under the threshold of `training.config`."""

ZERO_OPTIMIZERS = {1: "DeepSpeedZeroOptimizer", 2: "DeepSpeedZeroOptimizer", 3: "DeepSpeedZeroOptimizer_Stage3"}
DTYPES = {"fp32": "torch.float32", "bf16": "torch.bfloat16", "fp16": "torch.float16"}


def ranks_agree(observations: Sequence[Observation], *names: str) -> None:
    """Every rank observed the same of `names`."""
    for name in names:
        found = [each[name] for each in observations]
        assert all(value == found[0] for value in found), f"the ranks disagree on {name}: " + ", ".join(
            f"rank {rank} has {value}" for rank, value in enumerate(found)
        )


def world_is(observations: Sequence[Observation], world: int) -> None:
    """As many ranks as were asked for are in one world, each with its own number."""
    assert len(observations) == world, f"{len(observations)} ranks reported, {world} were asked for"
    found = [(each["rank"], each["world"]) for each in observations]
    expected = [(rank, world) for rank in range(world)]
    assert found == expected, f"(rank, world) as torch.distributed says: {found}, expected {expected}"


def refusal(observations: Sequence[Observation], dtype: str) -> None:
    """Where the device does not compute in `dtype`, every rank must have refused with the documented error, and nowhere
    else.

    Raises:
        Unsupported: it refused, and was right to.
    """
    refused = [each.get("refused") for each in observations]
    if all(each["supports_dtype"] for each in observations):
        assert not any(refused), f"the accelerator says it supports {dtype}, and yet: {refused}"
        return
    assert refused == [REFUSED[dtype]] * len(observations), (
        f"the accelerator does not support {dtype}: expected {REFUSED[dtype]!r} in every rank, found {refused}"
    )
    raise Unsupported(REFUSED[dtype])


def optimizer_is_partitioned(observations: Sequence[Observation], *, stage: int, total: int, tensors: int) -> None:
    """Each rank's optimizer holds the share of the weights that the stage promises: all in stage 0, else 1/world and
    padding.

    Args:
        total: weights of the model. tensors: in how many tensors.
    """
    world = len(observations)
    share = total if stage == 0 else math.ceil(total / world)
    # Stages 1 and 2 pad a whole group to a multiple of 2 * world, stage 3 each tensor to a multiple of world.
    padding = 0 if stage == 0 else 2 * world if stage < 3 else tensors
    for rank, each in enumerate(observations):
        for what, numel in {"float32 weights": each["master_numel"], **each["state_numel"]}.items():
            assert share - padding <= numel <= share + padding, (
                f"rank {rank} of {world} holds {numel} of {total} {what} in stage {stage}, expected {share}"
                + (f" within {padding} of padding" if padding else "")
            )
    held = sum(each["master_numel"] for each in observations)
    assert held >= total or stage == 0, (
        f"the ranks hold {held} weights together in stage {stage}, the model has {total}"
    )


def feature_is_on(
    observations: Sequence[Observation],
    asked: Question,
    *,
    stage: int,
    transport: str,
    total: int,
    tensors: int,
    matrices: int,
) -> None:
    """The engine's own state says that this stage, dtype, optimizer, accumulation, clipping and transport were really
    in use.

    Args:
        total: weights of the model. tensors: in how many tensors. matrices: how many of them stage 3 must have
            partitioned.
    """
    world = len(observations)
    for rank, each in enumerate(observations):

        def same(name: str, expected: object, rank: int = rank, each: Observation = each) -> None:
            assert each[name] == expected, f"rank {rank}: {name} is {each[name]!r}, expected {expected!r}"

        same("stage", stage)
        same("transport", transport)
        same("accumulation", asked.accumulation)
        same("clipping", asked.clipping)
        same("steps", asked.steps)
        same("skipped_steps", 0)
        same("computing_dtypes", [DTYPES[asked.dtype]])
        same("master_dtypes", ["torch.float32"])
        same("basic_optimizer", f"torch.optim.{asked.optimizer.name.lower()}.{asked.optimizer.name}")
        if stage:
            same("optimizer", ZERO_OPTIMIZERS[stage])
        if stage in (1, 2):
            same("partition_gradients", stage == 2)
        same("partitioned", matrices if stage == 3 else 0)
        if stage == 3:
            share = math.ceil(total / world)
            assert share <= each["shard_numel"] <= share + tensors, (
                f"rank {rank} holds {each['shard_numel']} of {total} weights in stage 3, expected {share} and padding"
            )
    optimizer_is_partitioned(observations, stage=stage, total=total, tensors=tensors)


def computing_weights_are_rounded_masters(observation: Observation, dtype: str) -> None:
    """What the model computes with is the float32 copy rounded to `dtype`, and that copy holds more than the rounded
    value."""
    import torch

    from conformance.oracle.trajectory import DTYPES as TORCH_DTYPES

    finer = total = 0
    for name, master in observation["weights"].items():
        rounded = torch.from_numpy(master).to(TORCH_DTYPES[dtype]).float().numpy()
        wrong = int((rounded != observation["computing"][name]).sum())
        assert not wrong, f"{wrong} of {master.size} weights of {name} are not the float32 copy rounded to {dtype}"
        finer += int(np.count_nonzero(rounded != master))
        total += master.size
    assert dtype == "fp32" or finer > total / 2, (
        f"only {finer} of {total} float32 weights hold more than {dtype} can: there is no float32 copy"
    )


def follows_oracle(observations: Sequence[Observation], asked: Question, measured: dict[str, float]) -> None:
    """Losses, gradient norms and weights are the oracle's, within the tolerance derived for the question."""
    from conformance.oracle.deviation import deviation
    from conformance.oracle.tolerance import tolerance
    from conformance.oracle.trajectory import trajectory

    oracle = trajectory(asked)
    allowed = tolerance(asked, same_kernels=observations[0].get("device", "cpu") == "cpu")
    losses = _mean_losses(observations)
    found = deviation(oracle, losses, observations[0]["weights"], observations[0]["gradient_norms"])
    worst = max(found.weights, key=lambda name: _ratio(found.weights[name], allowed.weights[name]))
    measured.update(weights_error=found.weights[worst], weights_error_tolerance=allowed.weights[worst])
    measured.update(stride_error=found.stride, stride_error_tolerance=allowed.stride)
    for what, errors, limits in (
        ("loss", found.losses, allowed.losses),
        ("gradient_norm", found.gradient_norms, allowed.gradient_norms),
    ):
        if errors:
            error, limit = max(zip(errors, limits, strict=True), key=lambda pair: _ratio(*pair))
            measured.update({f"{what}_error": error, f"{what}_error_tolerance": limit})
    wrong = [
        f"{what.replace('_', ' ')} off by {measured[f'{what}_error']:.2g} "
        f"(relative; {measured[f'{what}_error_tolerance']:.2g} allowed)"
        for what in ("loss", "gradient_norm", "weights", "stride")
        if f"{what}_error" in measured and not measured[f"{what}_error"] <= measured[f"{what}_error_tolerance"]
    ]
    assert not wrong, (
        f"not the oracle's training: {'; '.join(wrong)}; losses {_short(losses)}, the oracle's {_short(oracle.losses)}"
    )


def resumed_what_was_saved(saved: Observation, resumed: Observation) -> None:
    """The second process started from other weights, and loading gave it exactly the saved ones."""
    assert resumed["fresh"] != saved["saved"], (
        "the second process already had the saved weights before it loaded anything, so that loading proves nothing"
    )
    assert resumed["loaded"] != resumed["fresh"], (
        "loading changed nothing: the weights are still those the second process started from"
    )
    assert resumed["loaded"] == saved["saved"], (
        f"loading gave other weights (digest {resumed['loaded']}) than were saved (digest {saved['saved']})"
    )


def resumed_rightly(
    steps: Sequence[Sequence[Observation]], asked: Question, *, stage: int, counts: dict[str, int]
) -> None:
    """A resume in as many ranks as saved: the saved weights and counts came back, and training went on bit by bit."""
    saved, resumed = steps[0], steps[-1]
    for observations in (saved, resumed):
        world_is(observations, asked.world)
        ranks_agree(observations, "digest", "computing_digest")
        feature_is_on(observations, asked, stage=stage, transport=observations[0]["asked_transport"], **MLP)
    ranks_agree(saved, "saved")
    ranks_agree(resumed, "loaded", "counts_after_load")
    resumed_what_was_saved(saved[0], resumed[0])
    found = resumed[0]["counts_after_load"]
    assert found == counts, f"after loading, the engine counts {found}, saved were {counts}"
    same_training(saved, resumed)


def same_training_but_for_rounding(
    uninterrupted: Sequence[Observation],
    resumed: Sequence[Observation],
    asked: Question,
    measured: dict[str, float],
) -> None:
    """After a resume on another number of ranks, losses and weights are those of the uninterrupted run, within the
    tolerance for the larger world."""
    from conformance.oracle.deviation import deviation
    from conformance.oracle.tolerance import tolerance
    from conformance.oracle.trajectory import Trajectory, trajectory

    larger = dataclasses.replace(asked, world=max(len(uninterrupted), len(resumed)))
    allowed = tolerance(larger)
    losses = _mean_losses(uninterrupted)
    one = Trajectory(tuple(losses), (), trajectory(asked).start, uninterrupted[0]["weights"])
    found = deviation(one, _mean_losses(resumed), resumed[0]["weights"])
    worst = max(found.weights, key=lambda name: _ratio(found.weights[name], allowed.weights[name]))
    loss, limit = max(zip(found.losses, allowed.losses[-len(losses) :], strict=True), key=lambda pair: _ratio(*pair))
    measured.update(weights_error=found.weights[worst], weights_error_tolerance=allowed.weights[worst])
    measured.update(loss_error=loss, loss_error_tolerance=limit)
    assert found.weights[worst] <= allowed.weights[worst] and loss <= limit, (
        f"after the resume on {len(resumed)} ranks not the training of {len(uninterrupted)} without interruption: "
        f"{worst} off by {found.weights[worst]:.2g} (relative; {allowed.weights[worst]:.2g} allowed), "
        f"loss by {loss:.2g} ({limit:.2g} allowed)"
    )


def every_rank_raised(errors: Sequence[str | None], pattern: str, what: str, ranks: Sequence[int] | None = None) -> str:
    """Every rank was refused with an error that matches `pattern` (a regular expression); the first rank's error.

    Args:
        ranks: whose errors these are; 0 and up by default.
    """
    for rank, error in zip(ranks or range(len(errors)), errors, strict=True):
        assert error is not None, f"rank {rank}: {what} was not refused, an error that matches {pattern!r} was expected"
        assert re.search(pattern, error), f"rank {rank}: {what} raised {error!r}, expected what matches {pattern!r}"
    return str(errors[0])


def same_training(uninterrupted: Sequence[Observation], resumed: Sequence[Observation]) -> None:
    """After the resume, losses and weights are those of the run that was never interrupted, bit by bit."""
    for rank, (one, other) in enumerate(zip(uninterrupted, resumed, strict=True)):
        assert other["losses"] == one["losses"], (
            f"rank {rank}: after the resume the losses are {_short(other['losses'])}, "
            f"without interruption {_short(one['losses'])}"
        )
    one, other = uninterrupted[0], resumed[0]
    differ = {name: np.abs(array - other["weights"][name]).max(initial=0.0) for name, array in one["weights"].items()}
    wrong = {name: difference for name, difference in differ.items() if difference}
    assert not wrong, "after the resume other weights than without interruption: " + ", ".join(
        f"{name} off by up to {difference:.3g}" for name, difference in wrong.items()
    )
    assert one["digest"] == other["digest"], (
        "after the resume other weights than without interruption (in the sign of zeros only)"
    )


def _mean_losses(observations: Sequence[Observation]) -> list[float]:
    """The loss of each step over the global batch: the mean of the ranks'."""
    return [sum(values) / len(values) for values in zip(*(each["losses"] for each in observations), strict=True)]


def _ratio(error: float, limit: float) -> float:
    """How much of what is allowed an error is; no error is none of it, even where nothing is allowed."""
    return error / limit if limit else (math.inf if error else 0.0)


def _short(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:.6g}" for value in values) + "]"
