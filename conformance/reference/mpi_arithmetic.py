"""Reductions: the ranks' parts added up (or multiplied, compared, …) in the order of the ranks.

MPI's own reductions know no bfloat16, and each library adds in an order of its own. Here the order is that of the
ranks, so a result depends on neither library, message size nor timing. Two ranks get what gloo gives them, bit for bit,
as a + b is b + a. More ranks may differ from gloo in the last bits, since gloo's ring starts at another rank for each
part of a tensor.

float16 and bfloat16 are added in float32 and rounded once, at the end; their average is divided before that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed import ReduceOp

_NARROW = (torch.float16, torch.bfloat16)
_ORDERED = ("MAX", "MIN")


@dataclasses.dataclass(frozen=True)
class Reduction:
    """One reduction.

    Attributes:
        name: as in torch.distributed.ReduceOp.
        join: joins two tensors into `out`.
    """

    name: str
    join: Callable[..., Any]

    def __call__(self, parts: Sequence[torch.Tensor], out: torch.Tensor) -> None:
        """Join the parts in their order.

        Args:
            parts: at least one tensor, all of one shape and dtype; those that are not `out` may be overwritten.
            out: takes the result; may be one of the parts.
        """
        if not out.numel():
            return
        rest = parts[1:]
        if out.dtype in _NARROW:
            total = parts[0].float()
        elif not rest:
            total = parts[0]
        else:
            # The running total must not sit in a part that is still to come.
            late = any(part.data_ptr() == out.data_ptr() for part in parts[2:])
            total = parts[0] if late else out
            self.join(parts[0], parts[1], out=total)
            rest = parts[2:]
        for part in rest:
            self.join(total, part, out=total)
        if self.name == "AVG":
            exact = not (total.is_floating_point() or total.is_complex())
            torch.div(total, len(parts), rounding_mode="trunc" if exact else None, out=total)
        if total.data_ptr() != out.data_ptr():
            out.copy_(total)


_REDUCTIONS = {
    getattr(ReduceOp, name): Reduction(name, join)
    for name, join in (
        ("SUM", torch.add),
        ("AVG", torch.add),
        ("PRODUCT", torch.mul),
        ("MAX", torch.maximum),
        ("MIN", torch.minimum),
        ("BAND", torch.bitwise_and),
        ("BOR", torch.bitwise_or),
        ("BXOR", torch.bitwise_xor),
    )
}


def reduction(op: Any, dtype: torch.dtype) -> Reduction:
    """The reduction that torch asks for.

    Args:
        op: a ReduceOp, or one of its constants.
        dtype: of the tensors to reduce.

    Raises:
        ValueError: this transport has none of that name, or it means nothing for the dtype.
    """
    found = _REDUCTIONS.get(getattr(op, "op", op))
    if found is None:
        raise ValueError(f"reduce op {op}: mpi4py reduces with {', '.join(r.name for r in _REDUCTIONS.values())}")
    exact = not (dtype.is_floating_point or dtype.is_complex)
    fits = (
        (found.name == "AVG" and dtype is not torch.bool)
        or found.name in ("SUM", "PRODUCT")
        or (found.name in _ORDERED and not dtype.is_complex)
        or (found.name.startswith("B") and exact)
    )
    if not fits or (dtype.is_floating_point and dtype.itemsize == 1):
        raise ValueError(f"reduce op {found.name} for {dtype}: torch has no such arithmetic")
    return found
