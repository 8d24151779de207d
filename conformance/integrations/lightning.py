"""Lightning's Trainer with our strategy."""

from __future__ import annotations

from typing import Any

import pytorch_lightning
from pytorch_lightning.strategies import Strategy

from conformance.integrations.protocol import Training
from conformance.integrations.trainer_session import TrainerSession
from conformance.model.setting import Setting
from conformance.reference import load_config, shutdown
from conformance.reference.lightning import TrainerStrategy


class Lightning:
    """`Trainer(strategy=TrainerStrategy(…)).fit`; see `conformance.reference.lightning`."""

    name = "lightning"

    def start(self, setting: Setting, training: Training) -> TrainerSession:
        if training.parameters is not None:
            raise ValueError("parameters: found groups; Trainer takes those of the model, or a client's optimizer")
        if training.scheduler is not None and training.optimizer is None:
            raise ValueError("scheduler: found one without an optimizer; Trainer takes both from the module, or none")

        def trainer() -> pytorch_lightning.Trainer:
            settings = load_config(training.config)
            accumulation, clipping = (
                settings.pop(n, None) for n in ("gradient_accumulation_steps", "gradient_clipping")
            )
            return make_trainer(
                setting,
                self.strategy(setting, settings),
                accumulate_grad_batches=accumulation or 1,
                gradient_clip_val=clipping,
            )

        return TrainerSession(
            trainer, training.model, training.loss, (training.optimizer, training.scheduler), shutdown
        )

    def strategy(self, setting: Setting, config: dict[str, Any]) -> Strategy:
        """The strategy that is driven."""
        return TrainerStrategy(config, transport=setting.transport)


def make_trainer(setting: Setting, strategy: Strategy, **arguments: Any) -> pytorch_lightning.Trainer:
    """A Trainer without what prints, logs and saves by itself, unless asked for, on the setting's ranks."""
    quiet: dict[str, Any] = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "use_distributed_sampler"),
        False,
    )
    return pytorch_lightning.Trainer(
        **{
            "strategy": strategy,
            "accelerator": setting.device,
            "devices": setting.world,
            "max_epochs": -1,
            "default_root_dir": setting.folder,
            **quiet,
            **arguments,
        }
    )


LIGHTNING = Lightning()
