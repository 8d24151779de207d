"""A session for everything that hands out a DeepSpeed engine and leaves the loop to its user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from conformance.integrations import master_weights
from conformance.integrations.protocol import Batch


class EngineSession:
    """Drives a DeepSpeed engine with DeepSpeed's own loop: forward, backward, step.

    Args:
        engine: a DeepSpeedEngine.
        loss: `(output, targets)` to a scalar.
        shutdown: ends the engine and torch.distributed.
    """

    def __init__(self, engine: Any, loss: Callable[[Any, Tensor], Tensor], shutdown: Callable[[], None]) -> None:
        self.engine = engine
        self.loss = loss
        self.shutdown = shutdown

    def train_step(self, batches: Sequence[Batch]) -> float:
        total = 0.0
        for inputs, targets in batches:
            loss = self.loss(self.engine(inputs.to(self.engine.device)), targets.to(self.engine.device))
            self.engine.backward(loss)
            self.engine.step()
            total += loss.item()
        return total / len(batches)

    def weights(self) -> dict[str, NDArray[np.float32]]:
        return master_weights.gather(self.engine)

    def save(self, folder: Path, *, tag: str | None = None, client_state: Mapping[str, Any] | None = None) -> None:
        self.engine.save_checkpoint(str(folder), tag=tag, client_state=dict(client_state or {}))

    def load(self, folder: Path, *, tag: str | None = None) -> dict[str, Any] | None:
        path, client_state = self.engine.load_checkpoint(str(folder), tag=tag)
        return None if path is None else dict(client_state)

    def stop(self) -> None:
        self.shutdown()
