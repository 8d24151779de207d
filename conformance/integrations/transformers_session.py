"""A session for Transformers' Trainer, which owns its loop while the protocol goes a step at a time.

The Trainer runs in a thread of its own, which takes turns with the scenario's: it waits at the end of each step, where
a callback can ask it to save, and for its next batches.
"""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from accelerate.state import AcceleratorState, GradientState, PartialState
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import get_last_checkpoint

from conformance.integrations import master_weights
from conformance.integrations.protocol import Batch


class Stopped(Exception):
    """Ends the Trainer's loop where it waits."""


class ClientState(transformers.TrainerCallback, ExportableState):  # type: ignore[misc]
    """What a client wants kept with a checkpoint, in the form that the Trainer keeps and restores."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def state(self) -> dict[str, Any]:
        return {"args": {}, "attributes": {"values": self.values}}


class Turns(transformers.TrainerCallback):  # type: ignore[misc]
    """How scenario and Trainer take turns: an order (micro-batches, or a folder to save to) and its answer."""

    def __init__(self) -> None:
        self.orders: queue.SimpleQueue[Sequence[Batch] | Path | None] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self.batches: Sequence[Batch] = ()

    def order(self, what: Sequence[Batch] | Path) -> None:
        """In the scenario's thread: have `what` done."""
        self.orders.put(what)
        self.answered()

    def answered(self) -> None:
        """In the scenario's thread: wait until the Trainer waits."""
        error = self.answers.get()
        if error is not None:
            raise error

    def wait(self) -> Sequence[Batch] | Path:
        """In the Trainer's thread: say that the last order is done, and wait for the next."""
        self.answers.put(None)
        order = self.orders.get()
        if order is None:
            raise Stopped
        return order

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        order = self.wait()
        if isinstance(order, Path):
            args.output_dir = str(order)
            control.should_save = True
        else:
            self.batches = order
        return control

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            order = self.batches or self.wait()
            if isinstance(order, Path):
                raise ValueError("the Trainer saves after steps only")
            self.batches = ()
            yield from ({"inputs": inputs, "targets": targets} for inputs, targets in order)


class Trainer(transformers.Trainer):  # type: ignore[misc]
    """With the loss, the batches, the optimizer and the scheduler that it is given, each where the Trainer's
    documentation has it overridden."""

    optimizer: Any
    lr_scheduler: Any

    def __init__(self, model: nn.Module, turns: Turns, given: Mapping[str, Any], args: Any) -> None:
        self.turns = turns
        self.given = given
        self.losses: list[float] = []
        super().__init__(model=model, args=args, callbacks=[turns, ClientState()])

    def get_train_dataloader(self) -> Turns:
        return self.turns

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        loss: Tensor = self.given["loss"](model(inputs["inputs"]), inputs["targets"])
        self.losses.append(loss.item())
        return loss

    def create_optimizer(self, model: Any = None) -> Any:
        given = self.given["optimizer"]
        if self.optimizer is None and given is not None:
            trained = [each for each in self.model.parameters() if each.requires_grad]
            self.optimizer = given if isinstance(given, torch.optim.Optimizer) else given(trained)
        return super().create_optimizer(model)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        given = self.given["scheduler"]
        if self.lr_scheduler is None and given is not None:
            self.lr_scheduler = given(optimizer or self.optimizer) if callable(given) else given
        return super().create_scheduler(num_training_steps, optimizer)


class TransformersSession:
    """A Trainer that waits between steps."""

    def __init__(self, model: nn.Module, given: Mapping[str, Any], arguments: Callable[[], Any]) -> None:
        self.untouched = copy.deepcopy((model, dict(given)))
        self.arguments = arguments
        self._begin(model, given, None)

    @property
    def engine(self) -> Any:
        return self.trainer.model_wrapped

    def train_step(self, batches: Sequence[Batch]) -> float:
        self.trainer.losses.clear()
        self.turns.order(batches)
        return sum(self.trainer.losses) / len(self.trainer.losses)

    def weights(self) -> dict[str, NDArray[np.float32]]:
        return master_weights.gather(self.engine)

    def save(self, folder: Path, *, tag: str | None = None, client_state: Mapping[str, Any] | None = None) -> None:
        """The Trainer names the checkpoint itself, by its step."""
        if tag is not None:
            raise ValueError(f"found the tag {tag!r}, expected none: the Trainer names its checkpoints itself")
        self._client_state().values = dict(client_state or {})
        self.turns.order(folder)

    def load(self, folder: Path, *, tag: str | None = None) -> dict[str, Any] | None:
        """A Trainer loads when it begins to train: another one takes the place of this session's."""
        last = get_last_checkpoint(str(folder)) if folder.is_dir() else None
        if last is None:
            return None
        self._end()
        model, given = copy.deepcopy(self.untouched)
        self._begin(model, given, str(folder / tag) if tag else last)
        return self._client_state().values

    def stop(self) -> None:
        self._end()
        PartialState._reset_state()
        GradientState._reset_state()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    def _begin(self, model: nn.Module, given: Mapping[str, Any], checkpoint: str | None) -> None:
        self.turns = Turns()
        self.trainer = Trainer(model, self.turns, given, self.arguments())

        def train() -> None:
            try:
                self.trainer.train(resume_from_checkpoint=checkpoint)
            except Stopped:
                pass
            except BaseException as error:
                self.turns.answers.put(error)

        # A daemon: a rank whose scenario failed ends without it.
        self.thread = threading.Thread(target=train, name="Trainer", daemon=True)
        self.thread.start()
        self.turns.answered()

    def _end(self) -> None:
        self.turns.orders.put(None)
        self.thread.join()
        self.engine.destroy()
        AcceleratorState._reset_state()

    def _client_state(self) -> ClientState:
        (found,) = (each for each in self.trainer.callback_handler.callbacks if isinstance(each, ClientState))
        return found
