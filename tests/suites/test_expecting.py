"""The judgements that all checks of these suites share can fail."""

from __future__ import annotations

import re
from typing import Any

import numpy
import pytest

from conformance.suites.common.expecting import TOLERANCE, assert_raised, assert_refused, assert_works, proofs_in
from tests.suites.planted import proof, proofs, refused, returned

WEIGHTS = proof()["weights"]


def test_right_proofs_pass() -> None:
    assert_works(proofs())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"world": 1}, "world is 1, expected 2"),
        ({"engine_world": 1}, "engine_world is 1, expected 2"),
        ({"transport": "mpi"}, "transport is 'mpi', expected 'gloo'"),
        ({"device": "cuda:0"}, "device is 'cuda:0', expected 'cpu'"),
        ({"steps": 0}, "steps is 0, expected 1"),
        ({"stage": 1}, "stage is 1, expected 0"),
        ({"micro_batch": 4}, "micro_batch is 4, expected 2"),
        ({"accumulation": 2}, "accumulation is 2, expected 1"),
        ({"train_batch": 2}, "train_batch is 2, expected 4"),
        ({"dtype": "bfloat16"}, "dtype is 'bfloat16'"),
        ({"basic_optimizer": "torch.optim.sgd.SGD"}, "basic_optimizer is 'torch.optim.sgd.SGD'"),
        ({"optimizer": "some.Wrapper"}, "optimizer is 'some.Wrapper'"),
        ({"scheduler": "some.Scheduler"}, "scheduler is 'some.Scheduler', expected None"),
        ({"start": WEIGHTS}, "training changed no weight"),
        ({"plain": WEIGHTS + numpy.float32(3 * TOLERANCE)}, "from plain torch"),
    ],
)
def test_a_fault_on_every_rank_is_seen(change: dict[str, Any], says: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        assert_works(proofs(**change))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rank": 0}, "rank 1: rank is 0, expected 1"),
        ({"engine_rank": 0}, "rank 1: engine_rank is 0, expected 1"),
        ({"local_rank": 0}, "rank 1: local_rank is 0, expected 1"),
        ({"digest": "another"}, "digest: rank 0 has '0123456789abcdef', rank 1 has 'another'"),
        ({"weights": WEIGHTS * 0}, "rank 1: weights are"),
    ],
)
def test_a_fault_on_the_last_rank_is_seen(change: dict[str, Any], says: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        assert_works([proof(0), proof(1, **change)])


def test_weights_that_are_not_numbers_are_seen() -> None:
    with pytest.raises(AssertionError, match="weights are nan from plain torch"):
        assert_works(proofs(weights=WEIGHTS * numpy.nan))


def test_wrapped_optimizers_are_expected_by_stage() -> None:
    wrapper = "deepspeed.runtime.zero.stage3.DeepSpeedZeroOptimizer_Stage3"
    assert_works(proofs(stage=3, optimizer=wrapper), stage=3)
    with pytest.raises(AssertionError, match=re.escape("optimizer is 'torch.optim.adamw.AdamW'")):
        assert_works(proofs(stage=3), stage=3)


def test_local_ranks_of_two_nodes() -> None:
    assert_works(proofs(local_rank=0), local_ranks=[0, 0])
    with pytest.raises(AssertionError, match="rank 1: local_rank is 1, expected 0"):
        assert_works(proofs(), local_ranks=[0, 0])


def test_an_error_where_a_proof_was_expected() -> None:
    seen = [{"started": returned(proof())}, {"started": refused("ValueError", "no")}]
    with pytest.raises(AssertionError, match="rank 1: started raised ValueError: no"):
        proofs_in(seen, "started")


@pytest.mark.parametrize(
    "attempted",
    [
        returned("an engine"),
        refused("TypeError", "requires a model"),
        refused("AssertionError", "requires another thing"),
        refused("AssertionError", "requires a model", module="somewhere.else"),
    ],
)
def test_another_outcome_than_the_refusal_is_seen(attempted: dict[str, Any]) -> None:
    right = {"attempt": refused("AssertionError", "deepspeed.initialize requires a model")}
    assert_refused([right, right], "attempt", "AssertionError", "requires a model")
    with pytest.raises(AssertionError, match="rank 1: "):
        assert_refused([right, {"attempt": attempted}], "attempt", "AssertionError", "requires a model")


def test_errors_of_modules_are_told_apart() -> None:
    attempted = refused("ConfigError", "config: found 3", module="conformance.reference.errors")
    assert_raised(attempted, "conformance.reference.errors.ConfigError", re.compile("found [0-9]"), "rank 0")
    with pytest.raises(AssertionError, match="expected ConfigError saying 'found'"):
        assert_raised(attempted, "ConfigError", "found", "rank 0")
