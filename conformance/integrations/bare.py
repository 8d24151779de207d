"""DeepSpeed as its own documentation starts it, with nothing around it."""

from __future__ import annotations

import deepspeed

from conformance.integrations.deepspeeds_start import init_distributed
from conformance.integrations.engine_session import EngineSession
from conformance.integrations.protocol import Training
from conformance.model.setting import Setting


class BareDeepSpeed:
    """`deepspeed.init_distributed` with the lane's transport, then `deepspeed.initialize` without args."""

    name = "deepspeed"

    def start(self, setting: Setting, training: Training) -> EngineSession:
        init_distributed(setting)
        engine, *_ = deepspeed.initialize(
            model=training.model,
            config=dict(training.config),
            optimizer=training.optimizer,
            model_parameters=[each for each in training.model.parameters() if each.requires_grad]
            if training.parameters is None
            else training.parameters,
            lr_scheduler=training.scheduler,
        )

        def shutdown() -> None:
            engine.destroy()
            deepspeed.comm.destroy_process_group()

        return EngineSession(engine, training.loss, shutdown)


DEEPSPEED = BareDeepSpeed()
