"""The check of the collectives holds for right values only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.model.verdict import Unsupported
from conformance.suites import collectives

AXES = {"operation": "all_to_all_single", "dtype": "fp32", "shape": "odd", "members": "subgroup", "world": 3}


def right(axes: dict[str, Any], members: tuple[int, ...] = (0, 2)) -> list[dict[str, Any]]:
    """What the ranks report when the operation did what it promises."""
    inputs = [collectives.values(rank, axes) for rank in members]
    reduce = collectives.REDUCTIONS[str(axes.get("reduction", "SUM"))]
    observations: list[dict[str, Any]] = []
    for rank in range(int(axes["world"])):
        told: dict[str, Any] = {"rank": rank, "world": axes["world"]}
        if rank in members:
            place = members.index(rank)
            results = collectives.expected(str(axes["operation"]), place, inputs, reduce)
            told.update(place=place, order=list(members), results=[each.copy() for each in results or []])
        observations.append(told)
    return observations


@pytest.mark.parametrize("operation", sorted(collectives.OPERATIONS))
def test_right_values_pass_and_any_wrong_one_fails(operation: str) -> None:
    axes = {**AXES, "operation": operation}
    collectives.check_group(axes, right(axes))
    wrong = right(axes)
    told = next(each for each in reversed(wrong) if each.get("results"))
    told["results"][-1][0] += 1
    with pytest.raises(AssertionError, match=rf"rank {told['rank']}: tensor \d is .*, expected"):
        collectives.check_group(axes, wrong)


def test_values_tell_ranks_positions_and_reductions_apart() -> None:
    for reduction in ("AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
        axes = {"dtype": "int32", "shape": "odd", "reduction": reduction}
        inputs = [collectives.values(rank, axes) for rank in (0, 1)]
        assert not np.array_equal(*inputs)
        assert len(set(inputs[0].tolist())) > 1
        if reduction != "AVG":
            summed = collectives.REDUCTIONS["SUM"](np.stack(inputs))
            assert not np.array_equal(collectives.REDUCTIONS[reduction](np.stack(inputs)), summed)


def test_a_large_tensor_that_does_not_repeat_fails() -> None:
    axes = {"operation": "all_reduce", "dtype": "fp32", "shape": "large", "members": "world", "world": 2}
    observations = right(axes, (0, 1))
    collectives.check_operation(axes, observations)
    observations[1]["results"] = [None]
    with pytest.raises(AssertionError, match="rank 1: tensor 0 does not repeat"):
        collectives.check_operation(axes, observations)


def test_a_missing_tensor_and_a_wrong_number_fail() -> None:
    observations = right(AXES)
    observations[2]["results"] = []
    with pytest.raises(AssertionError, match="rank 2 got 0 tensors, expected 1"):
        collectives.check_group(AXES, observations)
    observations = right(AXES)
    observations[2]["place"] = 0
    with pytest.raises(AssertionError, match="rank 2 is number 0 of the group"):
        collectives.check_group(AXES, observations)


def test_a_refusal_counts_only_if_every_member_gives_it_and_it_says_what_is_lacking() -> None:
    observations = right(AXES)
    for rank in (0, 2):
        observations[rank]["refused"] = "RuntimeError: Backend gloo does not support that"
    with pytest.raises(Unsupported, match=r"gloo does not support"):
        collectives.check_group(AXES, observations)
    observations[2]["refused"] = "RuntimeError: Connection closed by peer"
    with pytest.raises(AssertionError, match=r"rank 2: .*Connection closed"):
        collectives.check_group(AXES, observations)
    observations[2]["refused"] = None
    with pytest.raises(AssertionError, match=r"rank 2: .* was not refused"):
        collectives.check_group(AXES, observations)


def test_a_rank_that_leaves_a_barrier_early_fails() -> None:
    axes = {"kind": "plain", "world": 2}
    observations = [{"rank": rank, "world": 2, "arrived": float(rank), "left": 1.1, "refused": None} for rank in (0, 1)]
    collectives.check_barrier(axes, observations)
    observations[0]["left"] = 0.9
    with pytest.raises(AssertionError, match=r"rank 0 left the barrier 0\.100 s before"):
        collectives.check_barrier(axes, observations)


def test_a_wrong_share_of_the_mean_fails() -> None:
    shares = {
        0: (np.arange(4.0), np.zeros(1), np.arange(8.0)),
        1: (np.arange(4.0, 7.0), np.zeros(0), np.arange(8.0, 16.0)),
    }
    observations = [{"rank": rank, "world": 2, "results": [share * 1.5 for share in shares[rank]]} for rank in (0, 1)]
    axes = {"dtype": "fp32", "world": 2}
    collectives.check_reduce_scatter_coalesced(axes, observations)
    observations[1]["results"][0] = observations[1]["results"][0] * 2
    with pytest.raises(AssertionError, match="rank 1: tensor 0"):
        collectives.check_reduce_scatter_coalesced(axes, observations)
