"""Lightning's Fabric with our strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning_fabric
import torch
from torch import Tensor

from conformance.integrations.engine_session import EngineSession
from conformance.integrations.protocol import Batch, Training
from conformance.model.setting import Setting
from conformance.reference import load_config, shutdown
from conformance.reference.fabric import FabricStrategy


class FabricSession(EngineSession):
    """A loop as Fabric's documentation has it.

    Args:
        fabric: launched.
        model: as `fabric.setup` returned it.
        optimizer: the same; None where the config made it, and the engine is stepped.
    """

    def __init__(
        self,
        fabric: lightning_fabric.Fabric,
        model: Any,
        optimizer: Any,
        loss: Callable[[Any, Tensor], Tensor],
        shutdown: Callable[[], None],
    ) -> None:
        super().__init__(fabric.strategy.model, loss, shutdown)
        self.fabric, self.model, self.optimizer = fabric, model, optimizer

    def train_step(self, batches: Sequence[Batch]) -> float:
        total = 0.0
        for inputs, targets in batches:
            loss = self.loss(self.model(self.fabric.to_device(inputs)), self.fabric.to_device(targets))
            self.fabric.backward(loss)
            (self.engine if self.optimizer is None else self.optimizer).step()
            total += loss.item()
        return total / len(batches)

    def save(self, folder: Path, *, tag: str | None = None, client_state: Mapping[str, Any] | None = None) -> None:
        _refuse(tag)
        self.fabric.save(folder, {**self._state(), "client_state": dict(client_state or {})})

    def load(self, folder: Path, *, tag: str | None = None) -> dict[str, Any] | None:
        _refuse(tag)
        state = {**self._state(), "client_state": {}}
        self.fabric.load(folder, state, weights_only=False)
        kept: dict[str, Any] = state["client_state"]
        return kept

    def _state(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.engine.optimizer}


class Fabric:
    """`Fabric(strategy=FabricStrategy(…))`; see `conformance.reference.fabric`."""

    name = "fabric"

    def start(self, setting: Setting, training: Training) -> FabricSession:
        optimizer, scheduler = training.optimizer, training.scheduler
        settings = load_config(training.config)
        mixed = settings.pop("bf16", {}).get("enabled")
        fabric = lightning_fabric.Fabric(
            strategy=FabricStrategy(settings, transport=setting.transport),
            accelerator=setting.device,
            devices=setting.world,
            precision="bf16-mixed" if mixed else None,
        )
        fabric.launch()
        if optimizer is None:
            if scheduler is not None or training.parameters is not None:
                raise ValueError("scheduler, parameters: found one without an optimizer; Fabric takes an optimizer's")
            made, wrapped = fabric.setup(training.model), None
        else:
            if not isinstance(optimizer, torch.optim.Optimizer):
                whole = training.parameters is None
                optimizer = optimizer(training.model.parameters() if whole else training.parameters)
            scheduler = scheduler(optimizer) if callable(scheduler) else scheduler
            made, wrapped, *_ = fabric.setup(training.model, optimizer, scheduler=scheduler)
        return FabricSession(fabric, made, wrapped, training.loss, lambda: _end(fabric.strategy.model))


def _end(engine: Any) -> None:
    engine.destroy()
    shutdown()


def _refuse(tag: str | None) -> None:
    if tag is not None:
        raise ValueError(f"tag: found {tag!r}; Lightning names each checkpoint's folder, and has one tag for all")


FABRIC = Fabric()
