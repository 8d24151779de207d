"""What is asked of the oracle; hashable, so that an answer is computed once."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """An optimizer of torch.optim, or Lion.

    Attributes:
        name: the class's name.
        options: its keyword arguments, in a hashable form.
    """

    name: str = "AdamW"
    options: tuple[tuple[str, Any], ...] = (("lr", 1e-2), ("betas", (0.9, 0.95)), ("eps", 1e-2), ("weight_decay", 0.1))

    def with_options(self, **options: Any) -> Optimizer:
        """The same with other values for some of its arguments."""
        return dataclasses.replace(self, options=tuple({**dict(self.options), **options}.items()))


@dataclasses.dataclass(frozen=True)
class Question:
    """One training run.

    Attributes:
        task: name of the task (conformance.models).
        dtype: `fp32`, `bf16` or `fp16`, what forward and backward compute in.
        world: number of data-parallel ranks.
        accumulation: micro-batches a rank and optimizer step.
        clipping: largest gradient norm; 0 for none.
        steps: optimizer steps.
        optimizer: what updates the float32 weights.
        loss_scale: what the loss is multiplied with in fp16.
        seed: of the initial weights.
        rates: the learning rate of each step; empty for the optimizer's own in all.
        grouped: whether the optimizer has two groups, the second with the biases, half the learning rate and no weight
            decay.
        halving: with fp16, whether a step whose gradient overflows is left out and halves the loss scale.
    """

    task: str = "mlp"
    dtype: str = "fp32"
    world: int = 1
    accumulation: int = 1
    clipping: float = 0.0
    steps: int = 4
    optimizer: Optimizer = Optimizer()
    loss_scale: float = 256.0
    seed: int = 0
    rates: tuple[float, ...] = ()
    grouped: bool = False
    halving: bool = False

    @property
    def terms(self) -> int:
        """Micro-batches whose gradients make up one step."""
        return self.world * self.accumulation
