"""A task: what is trained, on which batches, for which loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from conformance.models import awkward, convolution, mlp, several, transformer, uncommon, wide

ROWS = 16
"""Rows of a global batch: what all ranks together see in one optimizer step, however it is split."""

DATA_SEED = 20_000


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained.

    Attributes:
        name: how axes name it.
        model: makes the model from torch's current random state.
        data: `(rows, generator)` to inputs and targets, both with `rows` as their first size.
        loss: `(output, targets)` to a float32 scalar, a mean over the rows.
    """

    name: str
    model: Callable[[], nn.Module]
    data: Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
    loss: Callable[[Any, Tensor], Tensor]


_TASKS = {
    task.name: task
    for task in (
        Task("mlp", mlp.Mlp, mlp.data, mlp.loss),
        Task("transformer", transformer.Transformer, transformer.data, transformer.loss),
        Task("convolution", convolution.Convolution, convolution.data, convolution.loss),
        Task("awkward", awkward.Awkward, mlp.data, mlp.loss),
        Task("scalar", uncommon.WithScalar, mlp.data, mlp.loss),
        Task("empty", uncommon.WithEmpty, mlp.data, mlp.loss),
        Task("in_tuple", several.InTuple, mlp.data, several.loss_of_tuple),
        Task("in_mapping", several.InMapping, mlp.data, several.loss_of_mapping),
        Task("wide", wide.Wide, mlp.data, mlp.loss),
    )
}


def task(name: str) -> Task:
    """The task of that name; a KeyError names those that exist."""
    try:
        return _TASKS[name]
    except KeyError:
        raise KeyError(f"no task {name!r}; there is {', '.join(_TASKS)}") from None


def build(name: str, seed: int) -> nn.Module:
    """The model of a task in float32 on the CPU, its weights drawn from `seed`; torch's global random state stays as it
    was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(
            seed
        )  # torch.manual_seed would seed accelerators too, and note a stack trace
        return task(name).model()


def global_batch(name: str, step: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets, ROWS rows, of optimizer step `step` (from 0)."""
    return task(name).data(ROWS, torch.Generator().manual_seed(DATA_SEED + step))


def micro_batch(name: str, step: int, *, micro: int, accumulation: int, rank: int, world: int) -> tuple[Tensor, Tensor]:
    """The rows of a global batch that `rank` sees in micro-step `micro` of `accumulation`.

    Raises:
        ValueError: ROWS is not divisible by `accumulation * world`.
    """
    rows, rest = divmod(ROWS, accumulation * world)
    if rest:
        raise ValueError(f"a global batch of {ROWS} rows does not split into {accumulation} x {world} micro-batches")
    start = (micro * world + rank) * rows
    inputs, targets = global_batch(name, step)
    return inputs[start : start + rows], targets[start : start + rows]
