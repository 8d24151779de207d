"""A session for Lightning's Trainer, whose loop is its own: it runs in a thread, and here it is told what to train.

The two threads take turns, so that at no time both touch the engine.
"""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from conformance.integrations import master_weights
from conformance.integrations.protocol import Batch

ENDLESS = 10**9
"""Batches that an epoch is said to have: of a loader that does not say how many, Trainer fetches one batch ahead."""


class Trained(pytorch_lightning.LightningModule):  # type: ignore[misc]
    """What makes a model a LightningModule; `lightning_module` puts both together in one class."""

    answers: queue.SimpleQueue[Any]
    orders: queue.SimpleQueue[Any]
    loss: Callable[[Any, Tensor], Tensor]
    optimizer: Any
    scheduler: Any
    client_state: dict[str, Any]
    batches: list[Batch]
    losses: list[float]

    def training_step(self, batch: Batch, _: int) -> Tensor:
        inputs, targets = batch
        loss = type(self).loss(self(inputs), targets)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = self.optimizer
        if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
            optimizer = optimizer([each for each in self.parameters() if each.requires_grad])
        scheduler = self.scheduler(optimizer) if callable(self.scheduler) else self.scheduler
        if scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def on_train_start(self) -> None:
        self.answers.put(None)
        self._take_orders()

    def on_train_batch_end(self, *_: Any) -> None:
        if not self.batches:
            self.answers.put(sum(self.losses) / len(self.losses))
            self._take_orders()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["client_state"] = self.client_state

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.client_state = checkpoint["client_state"]

    def _take_orders(self) -> None:
        """Make calls until there are batches to train on, or none to come."""
        while callable(order := self.orders.get()):
            self.answers.put(order())
        self.batches, self.losses = list(order), []
        if not order:
            self.trainer.should_stop = True


class Feed:
    """The loader: gives the batches that the module was told of."""

    def __init__(self, module: Trained) -> None:
        self.module = module

    def __len__(self) -> int:
        return ENDLESS

    def __iter__(self) -> Iterator[Batch]:
        while self.module.batches:
            yield self.module.batches.pop(0)


def lightning_module(model: nn.Module, loss: Callable[[Any, Tensor], Tensor]) -> Trained:
    """The model as a LightningModule with the same parameters under the same names, as users write theirs."""
    kind = type(type(model).__name__, (Trained, type(model)), {"loss": staticmethod(loss)})
    with torch.random.fork_rng(devices=[]):
        made: Trained = kind()
    for registered in ("_modules", "_parameters", "_buffers"):
        setattr(made, registered, getattr(model, registered))
    made.optimizer = made.scheduler = None
    made.orders, made.answers = queue.SimpleQueue(), queue.SimpleQueue()
    made.client_state, made.batches, made.losses = {}, [], []
    return made


class TrainerSession:
    """Drives `Trainer.fit`, from the start of an adapter's to the end of the session.

    Args:
        trainer: makes a Trainer; called again for a resume, which in Lightning begins a new `fit`.
        model: what to train; kept as it is, to be trained anew by each `fit`.
        client: optimizer and scheduler, as `Integration.start` is given them.
        shutdown: ends torch.distributed.
    """

    def __init__(
        self,
        trainer: Callable[[], pytorch_lightning.Trainer],
        model: nn.Module,
        loss: Callable[[Any, Tensor], Tensor],
        client: tuple[Any, Any],
        shutdown: Callable[[], None],
    ) -> None:
        self.make_trainer, self.shutdown = trainer, shutdown
        self.given, self.loss = (model, *client), loss
        self._fit(None)

    @property
    def engine(self) -> Any:
        return self.trainer.strategy.model

    def train_step(self, batches: Sequence[Batch]) -> float:
        return float(self._order(batches))

    def weights(self) -> dict[str, NDArray[np.float32]]:
        return master_weights.gather(self.engine)

    def save(self, folder: Path, *, tag: str | None = None, client_state: Mapping[str, Any] | None = None) -> None:
        if tag is not None:
            raise ValueError(f"tag: found {tag!r}; Lightning names each checkpoint's folder, and has one tag for all")
        self.module.client_state = dict(client_state or {})
        self._order(lambda: self.trainer.save_checkpoint(folder))

    def load(self, folder: Path, *, tag: str | None = None) -> dict[str, Any] | None:
        if tag is not None:
            raise ValueError(f"tag: found {tag!r}; Lightning names each checkpoint's folder, and has one tag for all")
        self._end()
        self._fit(folder)
        return self.module.client_state

    def stop(self) -> None:
        self._end()
        self.shutdown()

    def _fit(self, checkpoint: Path | None) -> None:
        model, optimizer, scheduler = copy.deepcopy(self.given)
        self.trainer, self.module = self.make_trainer(), lightning_module(model, self.loss)
        self.module.optimizer, self.module.scheduler = optimizer, scheduler
        self.thread = threading.Thread(target=self._run, args=(self.trainer, self.module, checkpoint), daemon=True)
        self.thread.start()
        self._answer()

    @staticmethod
    def _run(trainer: pytorch_lightning.Trainer, module: Trained, checkpoint: Path | None) -> None:
        try:
            trainer.fit(module, Feed(module), ckpt_path=checkpoint, weights_only=False)
        except BaseException as error:
            module.answers.put(error)
        else:
            module.answers.put(StopIteration())

    def _order(self, order: Any) -> Any:
        self.module.orders.put(order)
        return self._answer()

    def _answer(self) -> Any:
        answer = self.module.answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _end(self) -> None:
        engine = self.engine
        try:
            self._order(())
        except StopIteration:
            self.thread.join()
        engine.destroy()
