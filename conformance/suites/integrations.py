"""What public reports say of Accelerate and Transformers' Trainer: ranks, accumulation, clipping, schedules, resumes.

Cases about a loop drive the integration's session; those about its start do what its documentation shows, since the
adapter tells it more.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from conformance.model.case import Step, case
from conformance.model.setting import Axes, Observation, Setting
from conformance.model.verdict import Unsupported
from conformance.suites.common import checks, resuming, training
from conformance.suites.common.observing import attempt, class_of
from conformance.suites.common.resuming import AFTER, BEFORE
from conformance.suites.launch import VARIABLES, mpi_is
from conformance.suites.zero import same_training

# --- starting as the documentation shows ---------------------------------------------------------------------------


def trainer_class(loss: Any, batches: list[dict[str, Any]]) -> Any:
    """A Trainer with the task's loss and these batches."""
    import transformers

    class Trainer(transformers.Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> list[dict[str, Any]]:
            return batches

        def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
            return loss(model(inputs["inputs"]), inputs["targets"])

    return Trainer


def train_as_documented(setting: Setting, *, optimizers: Any = None) -> Observation:
    """One step of the integration with nothing but what its documentation asks for; what it says of its ranks, and
    what torch.distributed says.

    Args:
        optimizers: for the Trainer, a function from the model to an optimizer that it is handed.
    """
    import torch.distributed

    from conformance import models

    asked = training.question(setting.parameters, steps=1)
    made = training.config(asked, stage=int(setting.get("stage", 1)))
    model, loss = models.build(asked.task, asked.seed), models.task(asked.task).loss
    inputs, targets = models.micro_batch(asked.task, 0, micro=0, accumulation=1, rank=0, world=asked.world)
    if setting.integration == "accelerate":
        from accelerate import Accelerator
        from accelerate.utils import DeepSpeedPlugin, DummyOptim

        accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=made))
        engine, _ = accelerator.prepare(model, DummyOptim(list(model.parameters())))
        accelerator.backward(loss(engine(inputs.to(accelerator.device)), targets.to(accelerator.device)))
        says = [accelerator.num_processes, accelerator.process_index]
    else:
        from conformance.integrations.transformers import training_arguments

        if optimizers is not None:
            del made["optimizer"]
        arguments = training_arguments(made, setting.folder, accelerator_config=None, max_steps=1)
        given = {} if optimizers is None else {"optimizers": (optimizers(model), None)}
        trainer = trainer_class(loss, [{"inputs": inputs, "targets": targets}])(model=model, args=arguments, **given)
        trainer.train()
        engine, says = trainer.model_wrapped, [arguments.world_size, arguments.process_index]
    return {
        "says": says,
        "is": [torch.distributed.get_world_size(), torch.distributed.get_rank()],
        "steps": int(engine.global_steps),
        "optimizer": class_of(engine.basic_optimizer),
        "mpi4py": "mpi4py.MPI" in sys.modules,
    }


def knows_all_ranks(observations: list[Observation], world: int) -> None:
    """Every rank trained, in one world of that size, and its integration knows it."""
    for rank, seen in enumerate(observations):
        assert seen["steps"] == 1, f"rank {rank} took {seen['steps']} steps, expected 1"
        assert seen["is"] == [world, rank], f"rank {rank}: (world, rank) is {seen['is']}, expected {[world, rank]}"
        assert seen["says"] == seen["is"], (
            f"rank {rank}: the integration says that this is rank {seen['says'][1]} of {seen['says'][0]}, "
            f"and it is rank {rank} of {world}"
        )


@case("integrations/knows_its_ranks", train_as_documented)
def check_knows_its_ranks(axes: Axes, observations: list[Observation]) -> None:
    """As many ranks as there are, each with its number."""
    knows_all_ranks(observations, int(axes["world"]))


def start_without_variables(setting: Setting) -> Observation:
    """Start with variables missing, and an MPI that knows all ranks."""
    import deepspeed.comm.comm

    # Discovery takes port 29500 unless told otherwise, which no integration does: cells on one host would meet there.
    discovery, port = deepspeed.comm.comm.mpi_discovery, int(os.environ["MASTER_PORT"])
    deepspeed.comm.comm.mpi_discovery = lambda *_, **__: discovery(distributed_port=port, verbose=False)
    for name in VARIABLES if setting["missing"] == "all" else [str(setting["missing"])]:
        del os.environ[name]
    with mpi_is(setting, "world"):
        return attempt(lambda: train_as_documented(setting))


@case("integrations/incomplete_environment", start_without_variables)
def check_incomplete_environment(axes: Axes, observations: list[Observation]) -> None:
    """All ranks are found and known, or every rank is refused."""
    raised = [seen.get("raised") for seen in observations]
    if all(raised):
        raise Unsupported("; ".join(f"{error['type']}: {error['message']}" for error in raised[:1] if error))
    assert not any(raised), f"some ranks were refused and others trained: {raised}"
    knows_all_ranks([seen["returned"] for seen in observations], int(axes["world"]))


def start_beside_broken_mpi4py(setting: Setting) -> Observation:
    """Start with an mpi4py that finds no library, launched or not."""
    if not setting["launched"]:
        for name in VARIABLES:
            del os.environ[name]
    with mpi_is(setting, "without_library"):
        return attempt(lambda: train_as_documented(setting))


@case("integrations/mpi4py_without_library", start_beside_broken_mpi4py)
def check_mpi4py_without_library(axes: Axes, observations: list[Observation]) -> None:
    """Who was launched trains; who was not trains too, or hears of MPI."""
    raised = [seen.get("raised") for seen in observations]
    if any(raised) and not axes["launched"]:
        texts = [f"{error['type']}: {error['message']}" if error else None for error in raised]
        raise Unsupported(checks.every_rank_raised(texts, r"(?i)\bmpi", "a script that nothing launched"))
    assert not any(raised), f"refused although the environment is complete: {raised}"
    for rank, seen in enumerate(observations):
        told = seen["returned"]
        assert told["steps"] == 1 and told["is"] == [axes["world"], rank], f"rank {rank}: {told}"
        assert not told["mpi4py"], f"rank {rank}: mpi4py was asked although the environment is complete"


# --- accumulation and clipping -------------------------------------------------------------------------------------


def plain_loop(session: Any, batches: list[Any]) -> float:
    """No word about accumulation: the config says it."""
    return sum(backward(session, batch, step=True) for batch in batches) / len(batches)


def no_sync_loop(session: Any, batches: list[Any]) -> float:
    """As the documentation of `Accelerator.no_sync` shows: all but the last micro-batch without synchronisation."""
    *first, last = batches
    total = 0.0
    for batch in first:
        with session.accelerator.no_sync(session.engine):
            total += backward(session, batch, step=False)
    return (total + backward(session, last, step=True)) / len(batches)


def backward(session: Any, batch: Any, *, step: bool) -> float:
    """One micro-batch, with the calls of a loop that steps after it."""
    device = session.accelerator.device
    loss = session.loss(session.engine(batch[0].to(device)), batch[1].to(device))
    session.accelerator.backward(loss)
    if step:
        session.optimizer.step()
        session.optimizer.zero_grad()
    return float(loss.item())


LOOPS = {"plain": plain_loop, "no_sync": no_sync_loop}


def finished(setting: Setting, session: Any, progress: training.Progress) -> Observation:
    """The report of a training that got to its end."""
    told = training.report(session, progress)
    session.stop()
    return {"supports_dtype": True, "device": setting.device, "asked_transport": setting.transport, **told}


def accumulating(axes: Axes) -> Any:
    """The question of the accumulation cases: two micro-batches a step."""
    return training.question({**axes, "accumulation": 2})


def accumulate(setting: Setting) -> Observation:
    """Train with the loop of the axis."""
    asked = accumulating(setting.parameters)
    session: Any = training.start(setting, asked, training.config(asked, stage=setting["stage"]))
    if setting["loop"] in LOOPS:
        session.train_step = functools.partial(LOOPS[setting["loop"]], session)
    return finished(setting, session, training.train(session, asked))


@case("integrations/accumulation", accumulate)
def check_accumulation(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The oracle's training: two micro-batches a step, each counted once."""
    same_training(axes, observations, measured, accumulating(axes))


def clipped(axes: Axes) -> Any:
    """The question of the clipping cases."""
    return training.question({**axes, "clipping": True})


def clip(setting: Setting) -> Observation:
    """Train with clipping by config, by the loop, or both."""
    asked = clipped(setting.parameters)
    made = training.config(asked, stage=setting["stage"])
    if setting["asked"] == "loop":
        made["gradient_clipping"] = 0.0
    session: Any = training.start(setting, asked, made)

    def step(batches: list[Any]) -> float:
        (batch,) = batches
        loss = backward(session, batch, step=False)
        if setting["asked"] != "config":
            session.accelerator.clip_grad_norm_(session.engine.parameters(), training.CLIPPING)
        session.optimizer.step()
        session.optimizer.zero_grad()
        return loss

    session.train_step = step
    return finished(setting, session, training.train(session, asked))


@case("integrations/clipping", clip)
def check_clipping(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The oracle's training with gradients clipped once."""
    same_training(axes, observations, measured, clipped(axes))


# --- schedules and optimizers --------------------------------------------------------------------------------------

DECAY = 0.8
WARMUP = {"warmup_min_lr": 1e-3, "warmup_max_lr": 1e-2, "warmup_num_steps": 4, "warmup_type": "linear"}
RATES = {
    # DeepSpeed's own schedules are at their beginning for the first two steps.
    "config": (1e-3, 1e-3, 3.25e-3, 5.5e-3, 7.75e-3, 1e-2),
    "callable": tuple(1e-2 * DECAY**step for step in range(BEFORE + AFTER)),
    "object": tuple(1e-2 * DECAY**step for step in range(BEFORE + AFTER)),
}
"""The learning rate of each step as the schedule's definition gives it."""


def scheduled(setting: Setting, *, fresh: bool) -> Any:
    """A session with the schedule that the axis says."""
    import torch

    from conformance import integrations, models

    asked = resuming.question(setting.parameters)
    made = training.config(asked, stage=setting["stage"])
    model = models.build(asked.task, training.reseeded(asked).seed if fresh else asked.seed)
    decay = functools.partial(torch.optim.lr_scheduler.ExponentialLR, gamma=DECAY)
    given: dict[str, Any] = {}
    if setting["given"] == "config":
        made["scheduler"] = {"type": "WarmupLR", "params": dict(WARMUP)}
    elif setting["given"] == "callable":
        given["scheduler"] = decay
    else:
        del made["optimizer"]
        given["optimizer"] = torch.optim.AdamW(model.parameters(), **dict(asked.optimizer.options))
        given["scheduler"] = decay(given["optimizer"])
    loss = models.task(asked.task).loss
    return integrations.start(setting, integrations.Training(model, made, loss, **given))


def rates_of(session: Any, setting: Setting, first: int, steps: int) -> list[float]:
    """The learning rates with which steps `first` and up are taken."""
    rates: list[float] = []
    for step in range(first, first + steps):
        rates.extend(session.engine.get_lr())
        training.train(session, resuming.question(setting.parameters), first=step, steps=1)
    return rates


def save_on_schedule(setting: Setting) -> Observation:
    """Train, save, and train on."""
    session = scheduled(setting, fresh=False)
    rates = rates_of(session, setting, 0, BEFORE)
    session.save(setting.folder / resuming.FOLDER)
    rates += rates_of(session, setting, BEFORE, AFTER)
    session.stop()
    return {"rates": rates}


def resume_on_schedule(setting: Setting) -> Observation:
    """Load into a new session, and train on."""
    session = scheduled(setting, fresh=True)
    session.load(setting.folder / resuming.FOLDER)
    rates = rates_of(session, setting, BEFORE, AFTER)
    session.stop()
    return {"rates": rates}


@case("integrations/schedule", plan=lambda axes: [Step(save_on_schedule), Step(resume_on_schedule)])
def check_schedule(axes: Axes, steps: list[list[Observation]]) -> None:
    """The schedule's rates, a step at a time, and after the resume those that were to come."""
    wanted = RATES[str(axes["given"])]
    for what, observations, expected in (
        ("the", steps[0], wanted),
        ("after a resume the", steps[1], wanted[BEFORE:]),
    ):
        for rank, seen in enumerate(observations):
            rates = seen["rates"]
            same = len(rates) == len(expected) and all(
                math.isclose(one, other, rel_tol=1e-9) for one, other in zip(rates, expected, strict=True)
            )
            assert same, f"rank {rank}: {what} learning rates are {rates}, expected {list(expected)}"


def hand_over_optimizer(setting: Setting) -> Observation:
    """Train with `Trainer(optimizers=(…, None))`."""
    import torch

    sgd = functools.partial(torch.optim.SGD, lr=0.1)
    return attempt(lambda: train_as_documented(setting, optimizers=lambda model: sgd(model.parameters())))


@case("integrations/client_optimizer", hand_over_optimizer)
def check_client_optimizer(observations: list[Observation]) -> None:
    """The optimizer that was handed over, or a refusal."""
    raised = [seen.get("raised") for seen in observations]
    if any(raised):
        texts = [f"{error['type']}: {error['message']}" if error else None for error in raised]
        raise Unsupported(checks.every_rank_raised(texts, r"(?i)optimizer", "a client's optimizer"))
    for rank, seen in enumerate(observations):
        found = seen["returned"]["optimizer"]
        assert found == "torch.optim.sgd.SGD", f"rank {rank}: {found} trained, torch.optim.sgd.SGD was handed over"


# --- universal checkpoints -----------------------------------------------------------------------------------------


def checkpoint(setting: Setting) -> Path:
    """The Trainer's checkpoint of the step at which the saved run saves."""
    return setting.folder / resuming.FOLDER / f"checkpoint-{BEFORE}"


def save(setting: Setting) -> Observation:
    """Train, save, and train on without interruption."""
    asked = resuming.question(setting.parameters)
    session = resuming.begin(setting, asked)
    return resuming.saved_run(setting, session, asked, lambda: session.save(setting.folder / resuming.FOLDER))


def convert(setting: Setting) -> Observation:
    """Convert to the universal format, as DeepSpeed's script does; the Trainer saves none of the state it looks for."""
    from deepspeed.checkpoint import ds_to_universal

    tag = f"global_step{BEFORE}"
    arguments = Namespace(
        input_folder=str(checkpoint(setting) / tag),
        output_folder=str(checkpoint(setting) / f"{tag}_universal"),
        num_extract_workers=1,
        num_merge_workers=1,
        keep_temp_folder=False,
        strict=True,
        inject_missing_state=True,
    )
    with contextlib.redirect_stdout(sys.stderr):
        ds_to_universal.main(arguments)
    (checkpoint(setting) / "latest_universal").write_text(f"{tag}_universal", encoding="utf-8")
    return {}


def resume_universal(setting: Setting) -> Observation:
    """Start from other weights, and let the Trainer resume what the config calls universal."""
    asked = resuming.question(setting.parameters)
    session = resuming.begin(setting, asked, fresh=True, more={"checkpoint": {"load_universal": True}})
    return resuming.resumed_run(setting, session, asked, lambda: session.load(setting.folder / resuming.FOLDER))


@case(
    "integrations/universal_resume",
    plan=lambda axes: [
        Step(save, world=int(axes["saved"])),
        Step(convert, world=1),
        Step(resume_universal, world=int(axes["resumed"])),
    ],
)
def check_universal_resume(axes: Axes, steps: list[list[Observation]], measured: dict[str, float]) -> None:
    """The run goes on as if never interrupted, but for rounding."""
    saved, _, resumed = steps
    checks.world_is(resumed, int(axes["resumed"]))
    checks.ranks_agree(resumed, "digest", "loaded")
    checks.resumed_what_was_saved(saved[0], resumed[0])
    checks.same_training_but_for_rounding(saved, resumed, resuming.question({**axes, "world": axes["saved"]}), measured)
