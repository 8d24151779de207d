"""What an adapter gives the scenarios: a session with one model in training."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from conformance.model.setting import Setting

if TYPE_CHECKING:
    from torch import Tensor, nn

Batch = tuple[Any, Any]
"""Inputs and targets of one micro-batch, tensors on the CPU."""


class Session(Protocol):
    """One model that an integration trains, in every rank at once: each method is called by all ranks together."""

    engine: Any
    """The DeepSpeed engine underneath, for checks of its state."""

    def train_step(self, batches: Sequence[Batch]) -> float:
        """One optimizer step over this rank's micro-batches, as many as the config accumulates; the mean of their
        losses."""

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """All weights in full by parameter name, the same in every rank: the float32 copy that the optimizer updates,
        where there is
        one, else what the model computes with."""

    def save(self, folder: Path, *, tag: str | None = None, client_state: Mapping[str, Any] | None = None) -> None:
        """Write a checkpoint that this integration can resume from."""

    def load(self, folder: Path, *, tag: str | None = None) -> dict[str, Any] | None:
        """Resume from a checkpoint: its client state, or None if there was nothing to load."""

    def stop(self) -> None:
        """Let go of the engine and of torch.distributed."""


@dataclasses.dataclass(frozen=True)
class Training:
    """What a rank asks an integration to train.

    Attributes:
        model: in float32 on the CPU.
        config: DeepSpeed's; batch sizes, accumulation and clipping are in it.
        loss: `(output, targets)` to a scalar, a mean over the rows.
        optimizer: a torch optimizer, a callable from parameters to one, or None for the one in `config`.
        parameters: parameters or parameter groups to train; None for all that require a gradient.
        scheduler: a learning rate scheduler, a callable from an optimizer to one, or None for the one in `config`, if
            any.
    """

    model: nn.Module
    config: Mapping[str, Any]
    loss: Callable[[Any, Tensor], Tensor]
    optimizer: Any = None
    parameters: Any = None
    scheduler: Any = None


class Integration(Protocol):
    """A way to start DeepSpeed."""

    name: str

    def start(self, setting: Setting, training: Training) -> Session:
        """Start torch.distributed over `setting.transport` and DeepSpeed on `training.model`.

        Args:
            setting: who this rank is and where it runs.
            training: what to train.
        """
