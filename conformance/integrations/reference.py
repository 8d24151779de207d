"""The reference integration: `conformance.reference.initialize`, as a user's trainer calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from conformance.integrations.engine_session import EngineSession
from conformance.model.setting import Setting
from conformance.reference import initialize


class Reference:
    """See `conformance.reference`."""

    name = "reference"

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
        started = initialize(
            model,
            dict(config),
            optimizer=optimizer,
            model_parameters=parameters,
            lr_scheduler=scheduler,
            transport=setting.transport,
        )
        return EngineSession(started.engine, loss, started.shutdown)


REFERENCE = Reference()
