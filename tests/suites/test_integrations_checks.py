"""The checks of the suite about Accelerate and the Trainer can fail, and refusals are told from failures."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.model.verdict import Unsupported
from conformance.suites import integrations as suite
from conformance.suites.common import resuming
from tests.suites.planted import refused, returned
from tests.suites.test_zero_checks import right


def started(rank: int, *, of: int = 2, **changes: Any) -> dict[str, Any]:
    """What a rank tells of a start that went well."""
    optimizer = "torch.optim.adamw.AdamW"
    return {"says": [of, rank], "is": [of, rank], "steps": 1, "optimizer": optimizer, "mpi4py": False, **changes}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"says": [1, 0]}, "rank 1: the integration says that this is rank 0 of 1, and it is rank 1 of 2"),
        ({"is": [1, 0], "says": [1, 0]}, r"rank 1: \(world, rank\) is \[1, 0\], expected \[2, 1\]"),
        ({"steps": 0}, "rank 1 took 0 steps"),
    ],
)
def test_ranks_must_be_known(second: dict[str, Any], message: str) -> None:
    suite.check_knows_its_ranks({"world": 2}, [started(0), started(1)])
    with pytest.raises(AssertionError, match=message):
        suite.check_knows_its_ranks({"world": 2}, [started(0), started(1, **second)])


def test_an_incomplete_environment_is_refused_everywhere_or_completed() -> None:
    axes = {"missing": "RANK", "world": 2}
    error = refused("ValueError", "environment variable RANK expected")
    suite.check_incomplete_environment(axes, [returned(started(0)), returned(started(1))])
    with pytest.raises(Unsupported, match="ValueError: environment variable RANK expected"):
        suite.check_incomplete_environment(axes, [error, error])
    with pytest.raises(AssertionError, match="some ranks were refused and others trained"):
        suite.check_incomplete_environment(axes, [error, returned(started(1))])
    with pytest.raises(AssertionError, match="this is rank 0 of 1"):
        suite.check_incomplete_environment(axes, [returned(started(0, says=[1, 0])), returned(started(1))])


def test_a_broken_mpi4py_is_not_touched_by_who_was_launched() -> None:
    launched, alone = {"launched": True, "world": 2}, {"launched": False, "world": 1}
    suite.check_mpi4py_without_library(launched, [returned(started(0)), returned(started(1))])
    error = refused("RuntimeError", "cannot load MPI library")
    with pytest.raises(AssertionError, match="refused although the environment is complete"):
        suite.check_mpi4py_without_library(launched, [returned(started(0)), error])
    with pytest.raises(AssertionError, match="rank 1: mpi4py was asked"):
        suite.check_mpi4py_without_library(launched, [returned(started(0)), returned(started(1, mpi4py=True))])
    suite.check_mpi4py_without_library(alone, [returned(started(0, of=1))])
    with pytest.raises(Unsupported, match="cannot load MPI library"):
        suite.check_mpi4py_without_library(alone, [error])
    with pytest.raises(AssertionError, match="a script that nothing launched raised"):
        suite.check_mpi4py_without_library(alone, [refused("IndexError", "list index out of range")])


@pytest.mark.parametrize("check", [suite.check_accumulation, suite.check_clipping], ids=["accumulation", "clipping"])
def test_another_training_fails(check: Any) -> None:
    axes = {"loop": "plain", "asked": "loop", "stage": 2, "world": 2}
    asked = suite.accumulating(axes) if check is suite.check_accumulation else suite.clipped(axes)
    other = suite.clipped(axes) if check is suite.check_accumulation else suite.training.question(axes)
    check(axes, right(asked), {})
    with pytest.raises(AssertionError, match="stage, steps and transport"):
        check(axes, right(asked, steps=8), {})
    with pytest.raises(AssertionError, match="not the oracle's training"):
        check(axes, right(other), {})


def test_a_schedule_that_is_stepped_twice_or_begins_anew_fails() -> None:
    axes = {"given": "object", "stage": 2, "world": 2}
    wanted = list(suite.RATES["object"])
    saved, resumed = [{"rates": wanted}] * 2, [{"rates": wanted[resuming.BEFORE :]}] * 2
    suite.check_schedule(axes, [saved, resumed])
    twice = [{"rates": [1e-2 * suite.DECAY ** (2 * step) for step in range(len(wanted))]}] * 2
    with pytest.raises(AssertionError, match="rank 0: the learning rates are"):
        suite.check_schedule(axes, [twice, resumed])
    with pytest.raises(AssertionError, match="rank 0: after a resume the learning rates are"):
        suite.check_schedule(axes, [saved, [{"rates": wanted[: resuming.AFTER]}] * 2])
    with pytest.raises(AssertionError, match="after a resume"):
        suite.check_schedule(axes, [saved, [{"rates": wanted[resuming.BEFORE :] + wanted[-1:]}] * 2])


def test_an_optimizer_that_is_replaced_fails() -> None:
    suite.check_client_optimizer([returned(started(0, of=1, optimizer="torch.optim.sgd.SGD"))])
    with pytest.raises(AssertionError, match=r"AdamW trained, torch\.optim\.sgd\.SGD was handed over"):
        suite.check_client_optimizer([returned(started(0, of=1))])
    with pytest.raises(Unsupported, match="custom optimizer"):
        suite.check_client_optimizer([refused("RuntimeError", "a custom optimizer is not supported")])
    with pytest.raises(AssertionError, match="a client's optimizer raised"):
        suite.check_client_optimizer([refused("KeyError", "'params'")])


def test_a_universal_resume_that_loads_nothing_fails() -> None:
    axes = {"stage": 3, "saved": 2, "resumed": 2}
    asked = resuming.question({**axes, "world": 2})
    saved = right(asked, 3, saved="before")
    suite.check_universal_resume(axes, [saved, [{}], right(asked, 3, fresh="fresh", loaded="before")], {})
    with pytest.raises(AssertionError):
        suite.check_universal_resume(axes, [saved, [{}], right(asked, 3, fresh="fresh", loaded="fresh")], {})
    other = right(resuming.training.reseeded(asked), 3, fresh="fresh", loaded="before")
    with pytest.raises(AssertionError, match="resume on 2 ranks"):
        suite.check_universal_resume(axes, [saved, [{}], other], {})
