"""Interchange: a checkpoint saved on one lane loads on another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance.hosts.bundles import CHECKPOINT, Bundles, promise
from conformance.model.case import Step, case
from conformance.model.setting import Axes, Observation, Setting
from conformance.suites.common import checks, training

BEFORE = 3
AFTER = 3
CLIENT_STATE = {"text": "Grüße, 世界", "number": 2.5}


def export(setting: Setting) -> Observation:
    """Train, save into the bundle, and say what a reader must find in it."""
    asked = training.question(setting.parameters, steps=BEFORE)
    session = training.start(setting, asked, training.config(asked, stage=setting["stage"]))
    progress = training.train(session, asked)
    told = training.report(session, progress)
    folder = Path(setting["bundle"])
    folder.mkdir(parents=True, exist_ok=True)
    session.save(folder / CHECKPOINT, client_state=CLIENT_STATE)
    session.stop()
    promised = {
        "digest": told["digest"],
        "steps": BEFORE,
        **{name: told[name] for name in ("losses", "gradient_norms")},
    }
    promise(folder, told["rank"]).write_text(json.dumps(promised), encoding="utf-8")
    return {"asked_transport": setting.transport, "saved": [path.name for path in sorted(folder.rglob("*.pt"))], **told}


def export_plan(axes: Axes, bundles: Bundles) -> list[Step]:
    return [Step(export, parameters={"bundle": str(bundles.own(axes))})]


@case("interchange/save", plan=export_plan)
def check_save(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The bundle holds a checkpoint of a right training."""
    asked = training.question(axes, steps=BEFORE)
    checks.world_is(observations, asked.world)
    checks.ranks_agree(observations, "digest", "computing_digest")
    checks.feature_is_on(
        observations, asked, stage=int(axes["stage"]), transport=observations[0]["asked_transport"], **checks.MLP
    )
    checks.follows_oracle(observations, asked, measured)
    assert observations[0]["saved"], "the bundle holds no checkpoint file"


def load(setting: Setting) -> Observation:
    """Start from other weights, load the foreign checkpoint, and train on."""
    asked = training.question(setting.parameters, steps=BEFORE + AFTER)
    folder = Path(setting["bundle"])
    session = training.start(setting, training.reseeded(asked), training.config(asked, stage=setting["stage"]))
    fresh = training.digest(session.weights())
    client_state = session.load(folder / CHECKPOINT)
    loaded = training.digest(session.weights())
    steps = session.engine.global_steps
    progress = training.train(session, asked, first=BEFORE, steps=AFTER)
    told = training.report(session, progress)
    session.stop()
    promised: dict[str, Any] = json.loads(promise(folder, told["rank"]).read_text(encoding="utf-8"))
    # What the other lane saw before it saved, and what was seen here after: one trajectory.
    whole = {name: promised.pop(name) + told[name] for name in ("losses", "gradient_norms")}
    return {
        "asked_transport": setting.transport,
        "promise": promised,
        "fresh": fresh,
        "loaded": loaded,
        "steps_after_load": steps,
        "client_state": {name: (client_state or {}).get(name) for name in CLIENT_STATE},
        **told,
        **whole,
    }


def load_plan(axes: Axes, bundles: Bundles) -> list[Step]:
    return [Step(load, parameters={"bundle": str(bundles.foreign(axes))})]


@case("interchange/load", plan=load_plan)
def check_load(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """What the other lane saved arrives bit by bit, and training goes on along the oracle's trajectory."""
    asked = training.question(axes, steps=BEFORE + AFTER)
    checks.world_is(observations, asked.world)
    checks.ranks_agree(observations, "digest", "computing_digest", "loaded", "promise", "client_state")
    checks.ranks_agree(observations, "steps_after_load")
    first = observations[0]
    assert first["fresh"] != first["promise"]["digest"], "the weights were the saved ones before anything was loaded"
    assert first["loaded"] == first["promise"]["digest"], (
        f"loaded weights have digest {first['loaded']}, {axes['from']} saved {first['promise']['digest']}"
    )
    assert first["steps_after_load"] == first["promise"]["steps"], (
        f"after loading, global_steps is {first['steps_after_load']}, {first['promise']['steps']} were saved"
    )
    assert first["client_state"] == CLIENT_STATE, f"the client state came back as {first['client_state']}"
    checks.feature_is_on(
        observations, asked, stage=int(axes["stage"]), transport=first["asked_transport"], **checks.MLP
    )
    checks.follows_oracle(observations, asked, measured)
