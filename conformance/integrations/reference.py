"""The reference integration: `conformance.reference.initialize`, as a user's trainer calls it."""

from __future__ import annotations

from conformance.integrations.engine_session import EngineSession
from conformance.integrations.protocol import Training
from conformance.model.setting import Setting
from conformance.reference import initialize


class Reference:
    """See `conformance.reference`."""

    name = "reference"

    def start(self, setting: Setting, training: Training) -> EngineSession:
        started = initialize(
            training.model,
            dict(training.config),
            optimizer=training.optimizer,
            model_parameters=training.parameters,
            lr_scheduler=training.scheduler,
            transport=setting.transport,
        )
        return EngineSession(started.engine, training.loss, started.shutdown)


REFERENCE = Reference()
