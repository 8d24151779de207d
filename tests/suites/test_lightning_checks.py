"""The checks of the lightning suite hold for right observations, and each can fail."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conformance.model.verdict import Unsupported
from conformance.oracle.trajectory import trajectory
from conformance.suites import lightning as suite
from conformance.suites.common import training
from conformance.suites.common.resuming import AFTER, BEFORE
from tests.suites.test_training_checks import AXES, right

Observations = list[dict[str, Any]]
FP32 = {"stage": 2, "dtype": "fp32", "world": 2}


def trained(axes: dict[str, Any] = FP32, *, steps: int = training.STEPS, **more: Any) -> Observations:
    """What two ranks report after a right `fit`."""
    each_micro = {"micro_losses": [0.5] * steps * int(axes.get("accumulation", 1)), "rates": [0.01] * steps}
    return [{**each, "trainer_steps": steps, **each_micro, **more} for each in right(axes, steps=steps)]


def fails(check: Callable[[Observations], object], observations: Observations, says: str, **changes: Any) -> None:
    """The check holds, and fails when rank 1 (or for `weights`, rank 0) observes something else."""
    check(copy.deepcopy(observations))
    changed = copy.deepcopy(observations)
    changed[0 if "weights" in changes else 1].update(changes)
    with pytest.raises(AssertionError, match=says):
        check(changed)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"trainer_steps": 8}, r"count \(8, 4\) steps, expected 4 in both"),
        ({"steps": 3}, r"count \(4, 3\) steps"),
        ({"micro_losses": [0.5] * 3}, "trained on 3 micro-batches, expected 4"),
        ({"digest": "else"}, "disagree on digest"),
        ({"stage": 0}, "stage is 0, expected 2"),
        ({"losses": [9.0] * 4}, "not the oracle's training"),
    ],
)
def test_max_steps(changes: dict[str, Any], says: str) -> None:
    fails(lambda each: suite.check_max_steps(FP32, each, {}), trained(), says, **changes)


def test_early_stopping() -> None:
    right_stop = trained(best=2.5)
    fails(lambda each: suite.check_early_stopping(FP32, each, {}), right_stop, "best metrics", best=2.0)
    fails(lambda each: suite.check_early_stopping(FP32, each, {}), right_stop, "count", trainer_steps=5, steps=5)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"validated": [1.0] * 4}, "4 validations in fit"),
        ({"validated": [1.0, 1.0, 1.0, 1.0, 2.0]}, "fit found the loss 2.0, the weights have 1.0"),
        ({"alone": 1.1}, r"Trainer\.validate found the loss 1\.1"),
        ({"alone_error": "KeyError: x"}, "Trainer.validate after fit raised KeyError"),
        ({"config_kept": False}, "the caller's config was changed"),
        ({"again": {"digest": "else"}}, "a second Trainer trained to other weights"),
    ],
)
def test_validation(changes: dict[str, Any], says: str) -> None:
    observations = trained(validated=[1.0] * 5, wanted=1.0, alone=1.0, alone_error=None, config_kept=True)
    observations = [{**each, "again": {"digest": each["digest"]}} for each in observations]
    fails(lambda each: suite.check_validation(FP32, each, {}), observations, says, **changes)


def resumed(**axes: Any) -> tuple[dict[str, Any], list[Observations]]:
    """Right steps of a resume: the end, the rest, and the whole."""
    given = {**FP32, **axes}
    rates = [0.01 * 0.8**step for step in range(BEFORE + AFTER)]
    whole = trained(given, steps=BEFORE + AFTER)
    rest = [{**each, "losses": each["losses"][BEFORE:], "rates": rates[BEFORE:]} for each in whole]
    ended = suite.ENDS.get(str(axes.get("ends")))
    end = {"ended": ended, "trainer_steps": BEFORE, "rates": rates[:BEFORE], "files": ["checkpoint/x.pt", "latest"]}
    return given, [[dict(end), dict(end)], rest, [{**each, "rates": rates} for each in whole]]


@pytest.mark.parametrize(
    ("step", "changes", "says"),
    [
        (0, {"trainer_steps": 2}, "took 2 steps, expected 3"),
        (0, {"files": ["model.ckpt"]}, "no checkpoint of DeepSpeed's"),
        (1, {"trainer_steps": 9}, r"count \(9, 6\) steps"),
        (1, {"losses": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}, "after the resume the losses are"),
        (1, {"digest": "else"}, "disagree on digest"),
    ],
)
def test_last(step: int, changes: dict[str, Any], says: str) -> None:
    axes, steps = resumed()
    suite.check_last(axes, steps)
    steps[step][1].update(changes)
    with pytest.raises(AssertionError, match=says):
        suite.check_last(axes, steps)


def test_interrupted() -> None:
    for ends in ("error", "keyboard"):
        axes, steps = resumed(ends=ends)
        suite.check_interrupted(axes, steps)
        steps[0][1]["ended"] = None
        with pytest.raises(AssertionError, match="fit raised"):
            suite.check_interrupted(axes, steps)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_schedule(step: int) -> None:
    axes, steps = resumed(schedule="client")
    suite.check_schedule(axes, steps)
    stepped_twice = [rate * 0.8**number for number, rate in enumerate(steps[step][1]["rates"])]
    for rates in (stepped_twice, steps[step][1]["rates"][:-1]):
        wrong = copy.deepcopy(steps)
        wrong[step][1]["rates"] = rates
        with pytest.raises(AssertionError, match="the learning rates are"):
            suite.check_schedule(axes, wrong)


def test_a_schedule_that_begins_anew_is_seen() -> None:
    axes, steps = resumed(schedule="client")
    steps[1][0]["rates"] = [0.01 * 0.8**step for step in range(AFTER)]
    with pytest.raises(AssertionError, match="after the resume the learning rates are"):
        suite.check_schedule(axes, steps)


def test_boundary() -> None:
    asked = training.question({**FP32, "accumulation": 2})
    weights = suite.odd_epochs(asked)
    observations = [{"trainer_steps": 4, "steps": 4, "digest": "a", "weights": weights} for _ in range(2)]

    def check(each: Observations) -> None:
        suite.check_boundary(FP32, each, {})

    fails(check, observations, r"count \(4, 3\)", steps=3)
    other = trajectory(asked).weights
    assert any(not np.allclose(other[name], array, atol=1e-5) for name, array in weights.items())
    fails(check, observations, "from plain torch's, which steps after 2, 1, 2 and 1", weights=dict(other))


def test_clipping() -> None:
    axes = {**FP32, "where": "trainer"}
    observations = trained({**FP32, "clipping": True})
    fails(lambda each: suite.check_clipping(axes, each, {}), observations, "clipping is 1.0", clipping=1.0)
    fails(lambda each: suite.check_clipping(axes, each, {}), observations, "refused", refused="ConfigError: x")
    told = "ConfigError: gradient_clipping: found 0.2 in the DeepSpeed config, gradient_clip_val=0.4 in Trainer"
    unlike = {**FP32, "where": "unlike"}
    with pytest.raises(Unsupported):
        suite.check_clipping(unlike, [{"refused": told}] * 2, {})
    with pytest.raises(AssertionError, match="was not refused"):
        suite.check_clipping(unlike, trained({**FP32, "clipping": True}), {})


def test_precision() -> None:
    axes = {"stage": 2, "world": 2, "by": "trainer"}
    observations = trained({**AXES, "accumulation": 1, "clipping": False}, target_dtypes=["torch.float32"])
    told, rounded = ["torch.float32"], ["torch.bfloat16"]
    fails(lambda each: suite.check_precision(axes, each, {}), observations, "computing_dtypes", computing_dtypes=told)
    fails(lambda each: suite.check_precision(axes, each, {}), observations, "given targets in", target_dtypes=rounded)


def test_start() -> None:
    axes = {**FP32, "circumstance": "usual"}
    observations = trained()
    for rank, each in enumerate(observations):
        told = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
        each["called"] = {"given": ["config", "model"], "positional": 0, "told": told}
    alone = {**observations[1]["called"], "told": {"RANK": "0", "WORLD_SIZE": "1"}}
    with_args = {**observations[1]["called"], "given": ["args", "model"]}
    fails(lambda each: suite.check_start(axes, each, {}), observations, "RANK and WORLD_SIZE were", called=alone)
    fails(lambda each: suite.check_start(axes, each, {}), observations, "was given args", called=with_args)
    fails(lambda each: suite.check_start(axes, each, {}), observations, "start was refused", refused="x")
    contradicting = {**FP32, "circumstance": "other_open_mpi_local_rank"}
    with pytest.raises(AssertionError, match="was not refused"):
        suite.check_start(contradicting, observations, {})


def test_unusable_mpi4py() -> None:
    fails(suite.check_unusable_mpi4py, [{"error": None}, {"error": None}], "rank 1: Trainer raised x", error="x")


@pytest.mark.parametrize(
    ("where", "changes", "says"),
    [
        ("killed", {"exits": [0]}, "torchrun ended well"),
        ("killed", {"ranks": [{}, None]}, "came to its end"),
        ("resumed", {"exits": [1]}, "torchrun's exit"),
    ],
)
def test_killed(where: str, changes: dict[str, Any], says: str) -> None:
    _, (_, rest, whole) = resumed()
    launches = {
        "killed": {"exits": [1], "ranks": [None, None], "output": ""},
        "resumed": {"exits": [0], "ranks": rest, "output": ""},
    }
    suite.check_killed([[launches["killed"]], [launches["resumed"]], whole])
    launches[where] = {**launches[where], **changes}
    with pytest.raises(AssertionError, match=says):
        suite.check_killed([[launches["killed"]], [launches["resumed"]], whole])
