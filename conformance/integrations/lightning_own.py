"""Lightning's Trainer with its own DeepSpeedStrategy as it is."""

from __future__ import annotations

from typing import Any

import deepspeed
import torch.distributed
from lightning_fabric.plugins.environments import LightningEnvironment, MPIEnvironment
from pytorch_lightning.strategies import DeepSpeedStrategy, Strategy

from conformance.integrations.lightning import Lightning
from conformance.integrations.protocol import Training
from conformance.integrations.trainer_session import TrainerSession
from conformance.model.setting import Setting
from conformance.model.verdict import Unsupported

REFUSAL = "The DeepSpeed strategy is only supported on CUDA GPUs but `CPUAccelerator` is used."
"""What it says to a CPU: that it refuses is documented, so that the cell is UNSUPPORTED with this text."""


class LightningOwn(Lightning):
    """`Trainer(strategy=DeepSpeedStrategy(config=…)).fit`."""

    name = "lightning-own"

    def start(self, setting: Setting, training: Training) -> TrainerSession:
        """See `Integration`.

        Raises:
            Unsupported: it refused the CPU.
        """
        try:
            session = super().start(setting, training)
        except RuntimeError as error:
            if str(error) == REFUSAL:
                raise Unsupported(REFUSAL) from error
            raise
        session.shutdown = _shutdown
        return session

    def strategy(self, setting: Setting, config: dict[str, Any]) -> Strategy:
        # What Trainer would find; its own search dies where mpi4py has no library: case lightning/unusable_mpi4py.
        found = LightningEnvironment() if setting.launcher == "env" else MPIEnvironment()
        return DeepSpeedStrategy(config=config, process_group_backend=setting.transport, cluster_environment=found)


def _shutdown() -> None:
    if torch.distributed.is_initialized():
        deepspeed.comm.destroy_process_group()


LIGHTNING_OWN = LightningOwn()
