"""DeepSpeed as its own documentation starts it, with nothing around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import deepspeed
from torch import Tensor, nn

from conformance.integrations.deepspeeds_start import init_distributed
from conformance.integrations.engine_session import EngineSession
from conformance.model.setting import Setting


class BareDeepSpeed:
    """`deepspeed.init_distributed` with the lane's transport, then `deepspeed.initialize` without args."""

    name = "deepspeed"

    def start(
        self,
        setting: Setting,
        model: nn.Module,
        config: Mapping[str, Any],
        *,
        loss: Callable[[Any, Tensor], Tensor],
        optimizer: Any = None,
        parameters: Any = None,
        scheduler: Any = None,
    ) -> EngineSession:
        init_distributed(setting)
        engine, *_ = deepspeed.initialize(
            model=model,
            config=dict(config),
            optimizer=optimizer,
            model_parameters=[each for each in model.parameters() if each.requires_grad]
            if parameters is None
            else parameters,
            lr_scheduler=scheduler,
        )

        def shutdown() -> None:
            engine.destroy()
            deepspeed.comm.destroy_process_group()

        return EngineSession(engine, loss, shutdown)


DEEPSPEED = BareDeepSpeed()
