"""How far a right answer may be from the oracle's, derived from the arithmetic and not from what was seen.

Two right runs differ only by rounding: in which order sums are taken, and what is rounded to bf16 or fp16 on the way.
Where that happens, and how much it is at most, follows from the question; how it travels through the steps is computed.

Where (u is the unit roundoff: 2^-24 fp32, 2^-8 bf16, 2^-11 fp16; n the longest sum in a matrix product; L the number of
weight tensors that are multiplied, so that a gradient has passed 2 L products):

1. *Order of summation inside products.* A sum of n products carries an error of about sqrt(n) u times the sum of the
   magnitudes (N. J. Higham, T. Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput.
   41, 2019), and that sum is sqrt(n) times as large as a typical result with its random signs: n u of a typical result.
   2 L such products in a row, independent of each other: k = sqrt(2 L) n 2^-24, relative to the root mean square of a
   tensor's gradient.
2. *Rounding that tips over.* In bf16 and fp16 each product is rounded to a grid of spacing 2 u. The kernels, and so the
   results, are the same in ranks and oracle but for (1); a difference of k moves the rounded value to the next grid
   point with probability k / 2u, by 2 u: a root mean square of sqrt(2 u k), for 2 L products sqrt(2 L) sqrt(2 u k).
   Where the ranks compute on another kind of device, nothing says that the kernels are the same: then each product may
   be rounded differently, sqrt(2 L) u.
3. *Summing micro-batches and ranks.* The oracle adds the `terms` gradients of a step in float64, DeepSpeed in the dtype
   it accumulates and communicates in: terms - 1 additions, each wrong by at most u of the partial sum, which is at most
   the sum of the magnitudes; independent of each other: sqrt(terms - 1) u, relative to the mean magnitude of each
   weight's gradients.
4. *Updating.* The optimizer's own arithmetic rounds each float32 weight about twice a step, once when it decays and
   once when it moves, by at most 2^-24 of its size and, as a factor such as 1 - lr * weight_decay is rounded for all
   steps alike, in one direction: 2 * steps * 2^-24 of a tensor's size, whatever the gradients are. Lion's step, a sign,
   hides (1) to (3) and shows this.

How far it travels: the oracle trains again, REPLICAS times, and changes each gradient by plus or minus those amounts,
the sign drawn for each weight (Monte Carlo arithmetic: D. S. Parker, UCLA CSD-970002, 1997). That carries the errors
through clipping, through the optimizer's division, through the rounding of the weights and through the next steps'
gradients, for any optimizer and any model. A rounding error is smaller than u in most cases and these are not: the
replicas err more than a right run does. The root mean square of the replicas' deviations, times SAFETY for what the
estimate of it from a few replicas may lack, is the tolerance.

What this asks of a question: the optimizer must not turn a tiny gradient into a step of fixed size. Adam with its usual
eps of 1e-8 does, since then a first step is lr * sign(gradient), and a weight whose gradient is mere rounding takes a
full step in either direction: the tolerance would, rightly, be wide. The default optimizer has an eps of the size of
the gradients, 1e-2; then a step also depends on the gradient's size, without which clipping would not show.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conformance import models
from conformance.oracle.deviation import deviation
from conformance.oracle.question import Question
from conformance.oracle.trajectory import Disturb, run, trajectory

ROUNDOFF = {"fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11}
REPLICAS = 6
SAFETY = 4.0


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """The largest deviation that a right run may show, for each measure of `Deviation`."""

    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    weights: dict[str, float]
    stride: float


@dataclasses.dataclass(frozen=True)
class Noise:
    """What rounding may do to one step's gradient.

    Attributes:
        products: relative to the root mean square of a tensor's gradient; (1) and (2).
        sums: relative to the mean magnitude of each weight's gradients; (3).
    """

    products: float
    sums: float


@functools.lru_cache(maxsize=64)
def _products(task: str) -> tuple[int, int]:
    """The longest sum in a product, and how many weight tensors are multiplied."""
    shapes = [tuple(parameter.shape) for parameter in models.build(task, 0).parameters()]
    return max(models.ROWS, *(max(shape) for shape in shapes if shape)), sum(len(shape) > 1 for shape in shapes)


def noise(question: Question, *, same_kernels: bool = True) -> Noise:
    """How much rounding may change a gradient of `question`, see above."""
    longest, count = _products(question.task)
    roundoff = ROUNDOFF[question.dtype]
    order = math.sqrt(2 * count) * longest * ROUNDOFF["fp32"]
    if question.dtype == "fp32":
        products = order
    elif same_kernels:
        products = math.sqrt(2 * count) * math.sqrt(2 * roundoff * order)
    else:
        products = math.sqrt(2 * count) * roundoff
    return Noise(products=products, sums=math.sqrt(question.terms - 1) * roundoff)


def _disturb(noise: Noise, seed: int) -> Disturb:
    generator = torch.Generator().manual_seed(seed)

    def signs(like: Tensor) -> Tensor:
        return torch.randint(0, 2, like.shape, generator=generator, dtype=like.dtype) * 2 - 1

    def disturb(_name: str, mean: Tensor, magnitude: Tensor) -> Tensor:
        typical = mean.square().mean().sqrt()
        return mean + signs(mean) * noise.products * typical + signs(mean) * noise.sums * magnitude

    return disturb


def _root_mean_square(values: list[float]) -> float:
    return math.sqrt(sum(value * value for value in values) / len(values))


def _norm(array: NDArray[np.float32]) -> float:
    return math.sqrt(float(np.square(array.astype(np.float64)).sum()))


@functools.lru_cache(maxsize=512)
def tolerance(question: Question, *, same_kernels: bool = True) -> Tolerance:
    """The tolerance for `question`; `same_kernels` is false where the ranks compute on another kind of device than the
    oracle."""
    oracle = trajectory(question)
    amount = noise(question, same_kernels=same_kernels)
    runs = [run(question, _disturb(amount, seed)) for seed in range(REPLICAS)]
    found = [deviation(oracle, each.losses, each.weights, each.gradient_norms) for each in runs]
    # A loss and a norm also have their own rounding, which the replicas' first steps do not show. Both are a root or a
    # sum of squares: twice the relative error of what is squared bounds theirs.
    own = 2 * amount.products
    steps = range(question.steps)
    updating = {name: 2 * question.steps * ROUNDOFF["fp32"] * _norm(array) for name, array in oracle.weights.items()}
    ways = {name: _norm(array - oracle.start[name]) for name, array in oracle.weights.items()}
    whole = math.sqrt(sum(way * way for way in ways.values()))
    return Tolerance(
        losses=tuple(SAFETY * _root_mean_square([each.losses[step] for each in found]) + own for step in steps),
        gradient_norms=tuple(
            SAFETY * _root_mean_square([each.gradient_norms[step] for each in found]) + own for step in steps
        ),
        weights={
            name: SAFETY * _root_mean_square([each.weights[name] for each in found])
            + (updating[name] / way if way else 0.0)
            for name, way in ways.items()
        },
        stride=SAFETY * _root_mean_square([each.stride for each in found])
        + (math.sqrt(sum(value * value for value in updating.values())) / whole if whole else 0.0),
    )
