"""Transformers: `Trainer` with `TrainingArguments(deepspeed=…)`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.distributed
import transformers
from accelerate.state import PartialState

from conformance.integrations.deepspeeds_start import init_distributed
from conformance.integrations.protocol import Training
from conformance.integrations.transformers_session import TransformersSession
from conformance.model.setting import Setting
from conformance.model.verdict import Unsupported

MAX_STEPS = 10_000
"""More than any scenario takes; the Trainer wants to be told."""

NO_BF16 = "Your setup doesn't support bf16/gpu."
"""TrainingArguments refuse bf16 without a GPU that has it, and with their remedy, use_cpu, DeepSpeed is left out."""


def training_arguments(config: Mapping[str, Any], folder: Path, **changes: Any) -> Any:
    """`TrainingArguments` that say what the config says, since the Trainer wants to be told both ways.

    Args:
        changes: arguments that are to be others.
    """
    optimizer = config.get("optimizer", {}).get("params", {})
    schedule = config.get("scheduler", {}).get("params", {})
    first, second = optimizer.get("betas", (0.9, 0.999))
    arguments: dict[str, Any] = {
        "output_dir": str(folder / "trainer"),
        "deepspeed": dict(config),
        "accelerator_config": {"use_configured_state": True},
        "per_device_train_batch_size": config["train_micro_batch_size_per_gpu"],
        "gradient_accumulation_steps": config.get("gradient_accumulation_steps", 1),
        "max_grad_norm": config.get("gradient_clipping", 1.0),
        "learning_rate": optimizer.get("lr", 1e-3),
        "adam_beta1": first,
        "adam_beta2": second,
        "adam_epsilon": optimizer.get("eps", 1e-8),
        "weight_decay": optimizer.get("weight_decay", 0.0),
        "bf16": bool(config.get("bf16", {}).get("enabled")),
        "fp16": bool(config.get("fp16", {}).get("enabled")),
        "max_steps": schedule.get("total_num_steps", MAX_STEPS),
        "warmup_steps": schedule.get("warmup_num_steps", 0),
        "lr_scheduler_type": "constant",
        "ignore_data_skip": True,
        "restore_callback_states_from_checkpoint": True,
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "report_to": [],
    }
    return transformers.TrainingArguments(**{**arguments, **changes})


class Transformers:
    """`transformers.Trainer`. Ranks are found as with Accelerate, on which it stands."""

    name = "transformers"

    def start(self, setting: Setting, training: Training) -> TransformersSession:
        if training.parameters is not None:
            raise ValueError("found parameters beside the model, expected none: the Trainer takes the model's")
        if setting.launcher == "mpi":
            init_distributed(setting)
        # TrainingArguments would leave out the backend, and then a rank without a GPU takes itself for the only one.
        os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
        PartialState(backend=setting.transport)
        plain = json.loads(json.dumps(training.config))  # as from a file: tuples are not what the Trainer compares with
        given = {"loss": training.loss, "optimizer": training.optimizer, "scheduler": training.scheduler}
        try:
            return TransformersSession(training.model, given, lambda: training_arguments(plain, setting.folder))
        except ValueError as error:
            if str(error).startswith(NO_BF16):
                torch.distributed.barrier()  # a rank that leaves while others still connect makes them fail instead
                raise Unsupported(f"ValueError: {error}") from error
            raise


TRANSFORMERS = Transformers()
