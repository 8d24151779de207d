"""Accelerate: `Accelerator(deepspeed_plugin=…)` and the loop that its documentation shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import accelerate
import numpy as np
import torch
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import DeepSpeedPlugin, DummyOptim, DummyScheduler, InitProcessGroupKwargs
from numpy.typing import NDArray
from torch import Tensor

from conformance.integrations import master_weights
from conformance.integrations.deepspeeds_start import init_distributed
from conformance.integrations.protocol import Batch, Training
from conformance.model.setting import Setting


class ClientState:
    """What a client wants kept with a checkpoint, in the form that `Accelerator.register_for_checkpointing` takes."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        return self.values

    def load_state_dict(self, values: dict[str, Any]) -> None:
        self.values = values


class AccelerateSession:
    """Trains with `Accelerator.accumulate` and `Accelerator.backward`, saves with `save_state`."""

    def __init__(
        self,
        accelerator: Any,
        engine: Any,
        optimizer: Any,
        scheduler: Any,
        loss: Callable[[Any, Tensor], Tensor],
    ) -> None:
        self.accelerator = accelerator
        self.engine = engine
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.loss = loss
        self.client_state = ClientState()
        accelerator.register_for_checkpointing(self.client_state)

    def train_step(self, batches: Sequence[Batch]) -> float:
        total = 0.0
        device = self.accelerator.device
        for inputs, targets in batches:
            with self.accelerator.accumulate(self.engine):
                loss = self.loss(self.engine(inputs.to(device)), targets.to(device))
                self.accelerator.backward(loss)
                self.optimizer.step()
                if self.scheduler is not None:
                    self.scheduler.step()
                self.optimizer.zero_grad()
            total += loss.item()
        return total / len(batches)

    def weights(self) -> dict[str, NDArray[np.float32]]:
        return master_weights.gather(self.engine)

    def save(self, folder: Path, *, tag: str | None = None, client_state: Mapping[str, Any] | None = None) -> None:
        """Accelerate's checkpoint is a folder, in which DeepSpeed's tag is always the same: a `tag` is a subfolder."""
        self.client_state.values = dict(client_state or {})
        self.accelerator.save_state(str(folder / (tag or "")))

    def load(self, folder: Path, *, tag: str | None = None) -> dict[str, Any] | None:
        self.accelerator.load_state(str(folder / (tag or "")))
        return self.client_state.values

    def stop(self) -> None:
        self.accelerator.free_memory()
        self.accelerator.end_training()
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


class Accelerate:
    """`accelerate`, whose launcher sets the variables that our launcher `env` sets.

    Under mpiexec Accelerate looks for ranks itself only without DeepSpeed (the suite `integrations` asks what it does
    with it), so there DeepSpeed finds them first, as a script under mpiexec has to do it.
    """

    name = "accelerate"

    def start(self, setting: Setting, training: Training) -> AccelerateSession:
        scheduler, optimizer = training.scheduler, training.optimizer
        if setting.launcher == "mpi":
            init_distributed(setting)
        accelerator = accelerate.Accelerator(
            deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=dict(training.config)),
            gradient_accumulation_steps=int(training.config.get("gradient_accumulation_steps", 1)),
            # Without it Accelerate takes a rank without a GPU for the only one.
            kwargs_handlers=[InitProcessGroupKwargs(backend=setting.transport)],
        )
        trained = training.parameters
        if trained is None:
            trained = [each for each in training.model.parameters() if each.requires_grad]
        if optimizer is None:
            given: Any = DummyOptim(trained)
        else:
            given = optimizer if isinstance(optimizer, torch.optim.Optimizer) else optimizer(trained)
        if callable(scheduler):
            # Accelerate takes a callable beside its stand-in for an optimizer only.
            stands_in = isinstance(given, DummyOptim)
            scheduler = DummyScheduler(given, lr_scheduler_callable=scheduler) if stands_in else scheduler(given)
        prepared = [training.model, given] if scheduler is None else [training.model, given, scheduler]
        engine, wrapped, *schedulers = accelerator.prepare(*prepared)
        return AccelerateSession(accelerator, engine, wrapped, schedulers[0] if schedulers else None, training.loss)


ACCELERATE = Accelerate()
