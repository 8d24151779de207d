"""ZeRO training against plain PyTorch."""

from __future__ import annotations

from conformance.case import case
from conformance.setting import Axes, Observation, Setting
from conformance.suites import checks, training


def train(setting: Setting) -> Observation:
    """Train the MLP for some steps with the stage, dtype, accumulation and clipping that the axes say."""
    asked = training.question(setting.parameters)
    support = {"supports_dtype": training.supports(asked.dtype)}
    try:
        session = training.start(setting, asked, training.config(asked, stage=setting["stage"]))
    except ValueError as error:
        return {**support, "refused": f"ValueError: {error}"}
    progress = training.train(session, asked)
    told = training.report(session, progress)
    session.stop()
    return {**support, "device": setting.device, "asked_transport": setting.transport, **told}


@case(train)
def test_train(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The world asked for, all ranks alike, the feature on, and the oracle's trajectory."""
    asked = training.question(axes)
    checks.refusal(observations, asked.dtype)
    checks.world_is(observations, asked.world)
    checks.ranks_agree(observations, "digest", "computing_digest", "gradient_norms")
    checks.feature_is_on(
        observations, asked, stage=int(axes["stage"]), transport=observations[0]["asked_transport"], **checks.MLP
    )
    checks.computing_weights_are_rounded_masters(observations[0], asked.dtype)
    checks.follows_oracle(observations, asked, measured)
