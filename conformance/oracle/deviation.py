"""How far a run is from the oracle's."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from conformance.oracle.trajectory import Trajectory


@dataclasses.dataclass(frozen=True)
class Deviation:
    """Distances between two runs; all are relative and 0 where they are equal.

    Attributes:
        losses: |other - oracle| / |oracle| of the loss of each step.
        gradient_norms: the same of the gradient norm; empty where the run did not report it.
        weights: for each tensor, the Euclidean norm of the difference after the last step over the norm of the way that
            the oracle's tensor went: what share of the training is wrong.
        stride: |s - 1| where s is how far the run went along the oracle's way. Rounding has no preferred direction, so
            that it averages out here over all weights, and a learning rate or a gradient that is wrong by a factor
            stands out.
    """

    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    weights: dict[str, float]
    stride: float


def deviation(
    oracle: Trajectory,
    losses: Sequence[float],
    weights: Mapping[str, NDArray[np.float32]],
    gradient_norms: Sequence[float] = (),
) -> Deviation:
    """Compare a run with the oracle's.

    Raises:
        AssertionError: the run has other steps, other tensors or other shapes, or a value that is not finite.
    """
    assert len(losses) == len(oracle.losses), (
        f"{len(losses)} losses were reported, {len(oracle.losses)} steps were asked for"
    )
    assert all(map(math.isfinite, losses)), f"the losses are not finite: {list(losses)}"
    assert sorted(weights) == sorted(oracle.weights), (
        f"the weights are {sorted(weights)}, expected {sorted(oracle.weights)}"
    )
    errors: dict[str, float] = {}
    along = way = 0.0
    for name, expected in oracle.weights.items():
        found = weights[name]
        assert found.shape == expected.shape, f"{name} has the shape {found.shape}, expected {expected.shape}"
        assert np.isfinite(found).all(), f"{name} has values that are not finite"
        start = oracle.start[name].astype(np.float64)
        wanted = expected - start
        length = float(np.square(wanted).sum())
        errors[name] = (
            math.sqrt(float(np.square(found - expected.astype(np.float64)).sum()) / length)
            if length
            else float((found != expected).any())
        )
        along += float(((found - start) * wanted).sum())
        way += length
    return Deviation(
        losses=_relative(losses, oracle.losses),
        gradient_norms=_relative(gradient_norms, oracle.gradient_norms),
        weights=errors,
        stride=abs(along / way - 1.0) if way else 0.0,
    )


def _relative(found: Sequence[float], expected: Sequence[float]) -> tuple[float, ...]:
    pairs = zip(found, expected, strict=True) if found else ()
    return tuple(_distance(value, wanted) for value, wanted in pairs)


def _distance(value: float, wanted: float) -> float:
    """Relative; absolute where 0 is wanted; none where both are the same, infinity included."""
    if value == wanted:
        return 0.0
    return abs(value - wanted) / abs(wanted) if wanted else abs(value)
