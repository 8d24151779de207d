"""What the scenarios about Lightning's Trainer share: a module that keeps account, a loader, and a quiet Trainer.

Imports Lightning: scenarios import this inside their functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytorch_lightning
import torch
import torch.distributed
from torch import Tensor

from conformance import models
from conformance.integrations import master_weights
from conformance.integrations.lightning import make_trainer
from conformance.model.setting import Observation, Setting
from conformance.oracle.question import Question
from conformance.reference.lightning import TrainerStrategy
from conformance.suites.common import training

DECAY = 0.8
"""By which the client's schedule multiplies the learning rate each step."""

VALIDATION = 700
"""The number of the batch that is validated on."""


class Account(pytorch_lightning.LightningModule):  # type: ignore[misc]
    """A question's model that keeps account of its training.

    Args:
        client: whether it brings optimizer and schedule itself; else the config has them.
        metric: by number of the validation, what is logged as `metric`, with the rank added.
    """

    def __init__(self, asked: Question, *, client: bool = False, metric: Callable[[int], float] | None = None) -> None:
        super().__init__()
        self.model = models.build(asked.task, asked.seed)
        self.asked, self.client, self.metric = asked, client, metric
        self.micro_losses: list[float] = []
        self.rates: list[float] = []
        self.validated: list[float] = []
        self.facts: Observation = {}
        self.target_dtypes: set[str] = set()

    def forward(self, inputs: Tensor) -> Any:
        return self.model(inputs)

    def training_step(self, batch: Any, _: int) -> Tensor:
        self.target_dtypes.add(str(batch[1].dtype))
        loss = models.task(self.asked.task).loss(self(batch[0]), batch[1])
        self.micro_losses.append(loss.item())
        return loss

    def on_before_optimizer_step(self, _: Any) -> None:
        self.rates.append(float(self.trainer.strategy.model.get_lr()[0]))

    def on_train_batch_end(self, *_: Any) -> None:
        self.facts = training.facts(self.trainer.strategy.model)  # validation partitions what stage 3 had left whole

    def validation_step(self, batch: Any, _: int) -> None:
        loss = models.task(self.asked.task).loss(self(batch[0]), batch[1])
        if self.metric is not None:
            value = self.metric(len(self.validated)) + self.global_rank
            self.log("metric", torch.tensor(value), sync_dist=True)
        self.validated.append(loss.item())

    def configure_optimizers(self) -> Any:
        if not self.client:
            return None
        optimizer = torch.optim.AdamW(self.parameters(), **dict(self.asked.optimizer.options))
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, DECAY)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Loader:
    """This rank's micro-batches of a question, in order; it goes on where a checkpoint left it.

    Args:
        length: micro-batches that an epoch has.
    """

    def __init__(self, asked: Question, rank: int, length: int) -> None:
        self.asked, self.rank, self.length = asked, rank, length
        self.given = 0

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        while True:
            step, micro = divmod(self.given, self.asked.accumulation)
            self.given += 1
            yield models.micro_batch(
                self.asked.task,
                step,
                micro=micro,
                accumulation=self.asked.accumulation,
                rank=self.rank,
                world=self.asked.world,
            )
            if self.given % self.length == 0:
                return

    def state_dict(self) -> dict[str, int]:
        return {"given": self.given}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.given = state["given"]


class ValidationLoader:
    """The validation batch, the same in every rank."""

    def __init__(self, asked: Question) -> None:
        self.asked = asked

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Any]:
        yield models.global_batch(self.asked.task, VALIDATION)


def config(asked: Question, stage: int, *, client: bool = False) -> dict[str, Any]:
    """DeepSpeed's config as Lightning wants it: accumulation and clipping are Trainer's."""
    made = training.config(asked, stage=stage)
    del made["gradient_accumulation_steps"], made["gradient_clipping"]
    if client:
        del made["optimizer"]
    return made


def trainer(setting: Setting, asked: Question, settings: Mapping[str, Any], **arguments: Any) -> Any:
    """A Trainer with our strategy, on the setting's ranks."""
    given = {
        "accumulate_grad_batches": asked.accumulation,
        "gradient_clip_val": asked.clipping,
        "max_steps": asked.steps,
        **arguments,
    }
    return make_trainer(setting, TrainerStrategy(settings, transport=setting.transport), **given)


def fit(running: Any, module: Account, *, length: int | None = None, **arguments: Any) -> None:
    """`Trainer.fit` on the question's micro-batches, as many an epoch as `length` says, or one step's."""
    loader = Loader(module.asked, running.global_rank, length or module.asked.accumulation)
    running.fit(module, loader, weights_only=False, **arguments)


def report(setting: Setting, running: Any, module: Account) -> Observation:
    """What a rank tells after a `fit`; ends nothing."""
    engine = running.strategy.model
    told = module.facts
    plain = functools.partial(_without_prefix, "model.")
    weights, computing = plain(master_weights.gather(engine)), plain(master_weights.module_weights(engine))
    count = module.asked.accumulation
    groups = [module.micro_losses[at : at + count] for at in range(0, len(module.micro_losses), count)]
    return {
        **told,
        "supports_dtype": True,
        "device": setting.device,
        "asked_transport": setting.transport,
        "trainer_steps": int(running.global_step),
        "losses": [sum(group) / len(group) for group in groups],
        "micro_losses": list(module.micro_losses),
        "gradient_norms": [],
        "target_dtypes": sorted(module.target_dtypes),
        "rates": list(module.rates),
        "validated": list(module.validated),
        "digest": training.digest(weights),
        "computing_digest": training.digest(computing),
        **({"weights": weights, "computing": computing} if told["rank"] == 0 else {}),
    }


def _without_prefix(prefix: str, weights: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in weights.items()}
