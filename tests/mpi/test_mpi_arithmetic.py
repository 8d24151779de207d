"""Reductions in the order of ranks, without MPI."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed import ReduceOp

from conformance.reference.mpi_arithmetic import reduction

WORLDS = st.integers(min_value=1, max_value=6)


def parts_of(world: int, seed: int, dtype: torch.dtype) -> list[torch.Tensor]:
    numbers = torch.Generator().manual_seed(seed)
    return [(torch.randn(17, generator=numbers) * 10 ** (rank % 4)).to(dtype) for rank in range(world)]


@given(
    world=WORLDS,
    seed=st.integers(0, 99),
    where=st.integers(0, 5),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_sum_is_in_the_order_of_ranks_wherever_the_result_goes(
    world: int, seed: int, where: int, dtype: torch.dtype
) -> None:
    """The result may go to the place of any part, as it does in all_reduce: that of the rank itself."""
    wanted = parts_of(world, seed, dtype)[0].float()
    for part in parts_of(world, seed, dtype)[1:]:
        wanted = wanted + part.float()
    parts = parts_of(world, seed, dtype)
    out = parts[where] if where < world else torch.zeros(17, dtype=dtype)
    reduction(ReduceOp.SUM, dtype)(parts, out)
    assert torch.equal(out, wanted.to(dtype))


def test_order_matters_and_is_kept() -> None:
    parts = [torch.tensor([value]) for value in (1e8, 1.0, -1e8)]
    out = torch.zeros(1)
    reduction(ReduceOp.SUM, torch.float32)(parts, out)
    assert out.item() == 0.0  # (1e8 + 1) - 1e8; in another order it is 1


def test_average_of_half_precision_rounds_once() -> None:
    parts = [torch.tensor([1.0], dtype=torch.bfloat16), torch.tensor([1 + 2**-7], dtype=torch.bfloat16)]
    out = torch.zeros(1, dtype=torch.bfloat16)
    reduction(ReduceOp.AVG, torch.bfloat16)(parts, out)
    assert out.item() == torch.tensor(1 + 2**-8).to(torch.bfloat16).item()
    large = [torch.full((1,), 60000.0, dtype=torch.float16) for _ in range(4)]
    mean = torch.zeros(1, dtype=torch.float16)
    reduction(ReduceOp.AVG, torch.float16)(large, mean)
    assert mean.item() == torch.tensor(60000.0).half().item()  # the sum is out of float16's range


def test_average_of_integers_rounds_towards_zero() -> None:
    out = torch.zeros(2, dtype=torch.int32)
    reduction(ReduceOp.AVG, torch.int32)(
        [torch.tensor([3, -3], dtype=torch.int32), torch.zeros(2, dtype=torch.int32)], out
    )
    assert out.tolist() == [1, -1]


def test_nan_wins_a_maximum() -> None:
    out = torch.zeros(2)
    reduction(ReduceOp.MAX, torch.float32)([torch.tensor([1.0, float("nan")]), torch.tensor([2.0, 3.0])], out)
    assert out[0] == 2 and out[1].isnan()


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        (ReduceOp.BAND, torch.float32),
        (ReduceOp.MAX, torch.complex64),
        (ReduceOp.AVG, torch.bool),
        (ReduceOp.SUM, torch.float8_e4m3fn),
    ],
)
def test_what_has_no_meaning_is_refused(op: ReduceOp, dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match="torch has no such arithmetic"):
        reduction(op, dtype)
