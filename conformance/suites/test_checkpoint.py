"""Checkpoints: what was saved is what resumes."""

from __future__ import annotations

from conformance.case import Step, case
from conformance.setting import Axes, Observation, Setting
from conformance.suites import checks, training

BEFORE = 3
AFTER = 3
CLIENT_STATE = {"epoch": 7, "text": "Grüße", "nested": {"list": [1, 2.5, None]}}


def save_and_go_on(setting: Setting) -> Observation:
    """Train, save, and train on without interruption."""
    asked = training.question(setting.parameters, steps=BEFORE + AFTER)
    session = training.start(setting, asked, training.config(asked, stage=setting["stage"]))
    training.train(session, asked, steps=BEFORE)
    saved = training.digest(session.weights())
    session.save(setting.folder / "checkpoint", client_state=CLIENT_STATE)
    progress = training.train(session, asked, first=BEFORE, steps=AFTER)
    told = training.report(session, progress)
    session.stop()
    return {"saved": saved, "asked_transport": setting.transport, **told}


def resume(setting: Setting) -> Observation:
    """Start from other weights, load, and train on."""
    asked = training.question(setting.parameters, steps=BEFORE + AFTER)
    session = training.start(setting, training.reseeded(asked), training.config(asked, stage=setting["stage"]))
    fresh = training.digest(session.weights())
    client_state = session.load(setting.folder / "checkpoint")
    loaded = training.digest(session.weights())
    steps = session.engine.global_steps
    progress = training.train(session, asked, first=BEFORE, steps=AFTER)
    told = training.report(session, progress)
    session.stop()
    kept = None if client_state is None else {name: client_state.get(name) for name in CLIENT_STATE}
    return {"fresh": fresh, "loaded": loaded, "client_state": kept, "steps_after_load": steps, **told}


def save_then_resume(axes: Axes) -> list[Step]:
    """Two sets of processes, one after the other."""
    return [Step(save_and_go_on), Step(resume)]


@case(plan=save_then_resume)
def test_resume(axes: Axes, steps: list[list[Observation]]) -> None:
    """The resumed run is the uninterrupted one, bit by bit."""
    saved, resumed = steps
    asked = training.question(axes, steps=BEFORE + AFTER)
    for observations in steps:
        checks.world_is(observations, asked.world)
        checks.ranks_agree(observations, "digest", "computing_digest")
        checks.feature_is_on(
            observations, asked, stage=int(axes["stage"]), transport=saved[0]["asked_transport"], **checks.MLP
        )
    checks.ranks_agree(saved, "saved")
    checks.ranks_agree(resumed, "loaded", "client_state", "steps_after_load")
    checks.resumed_what_was_saved(saved[0], resumed[0])
    assert resumed[0]["client_state"] == CLIENT_STATE, (
        f"the client state came back as {resumed[0]['client_state']}, {CLIENT_STATE} was saved"
    )
    assert resumed[0]["steps_after_load"] == BEFORE, (
        f"after loading, global_steps is {resumed[0]['steps_after_load']}, {BEFORE} were saved"
    )
    checks.same_training(saved, resumed)
