"""What the checkpoint scenarios share: a run that is saved on its way, and one that begins from what was saved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from conformance.integrations.protocol import Session
from conformance.model.setting import Axes, Observation, Setting
from conformance.model.verdict import Unsupported
from conformance.oracle.question import Question
from conformance.suites.common import training

BEFORE = 3
"""Optimizer steps before the save."""

AFTER = 3
"""Optimizer steps after the save, and again after the resume."""

FOLDER = "checkpoint"
"""Name of the checkpoint folder in the cell's folder."""


def question(axes: Axes, task: str = "mlp") -> Question:
    """What the oracle is asked about the run without interruption."""
    return training.question(axes, steps=BEFORE + AFTER, task=task)


def begin(
    setting: Setting,
    asked: Question,
    *,
    fresh: bool = False,
    stage: int | None = None,
    zero: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> Session:
    """Start the integration on the question's model.

    Args:
        fresh: start from other weights, so that what a load gives is seen to come from the load.
        stage: the ZeRO stage; the axis of that name by default.
        zero: laid over the config's section zero_optimization.
        more: laid over the config.
        arguments: passed on to the integration.
    """
    chosen = int(setting["stage"]) if stage is None else stage
    made = {**training.config(asked, stage=chosen, zero=zero), **(more or {})}
    return training.start(setting, training.reseeded(asked) if fresh else asked, made, **arguments)


def saved_run(
    setting: Setting,
    session: Session,
    asked: Question,
    save: Callable[[], object],
) -> Observation:
    """Train, save, and train on without interruption; ends the session."""
    training.train(session, asked, steps=BEFORE)
    saved = training.digest(session.weights())
    save()
    return {"saved": saved, **finished_run(setting, session, asked)}


def resumed_run(setting: Setting, session: Session, asked: Question, load: Callable[[], object]) -> Observation:
    """Load, and train the steps that the saved run trained after its save; ends the session."""
    fresh = training.digest(session.weights())
    load()
    loaded = training.digest(session.weights())
    counts = {name: int(getattr(session.engine, name)) for name in ("global_steps", "global_samples", "skipped_steps")}
    return {"fresh": fresh, "loaded": loaded, "counts_after_load": counts, **finished_run(setting, session, asked)}


def finished_run(setting: Setting, session: Session, asked: Question) -> Observation:
    """The steps after the save, the report, and the session's end."""
    progress = training.train(session, asked, first=BEFORE, steps=AFTER)
    told = training.report(session, progress)
    session.stop()
    return {"asked_transport": setting.transport, "device": setting.device, **told}


@dataclasses.dataclass
class Attempt:
    """A call that may be refused: its result, or `Type: text` of what it raised."""

    result: Any = None
    error: str | None = None


def attempt(call: Callable[[], Any]) -> Attempt:
    """Make a call and keep what it raises as text, but for an integration's own refusal, which is the verdict."""
    try:
        return Attempt(result=call())
    except Unsupported:
        raise
    except Exception as error:
        return Attempt(error=f"{type(error).__name__}: {error}")
