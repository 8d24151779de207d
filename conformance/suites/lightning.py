"""Lightning's Trainer: what it decides beside the training steps, and what it is told where it cannot."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.model.case import Step, case
from conformance.model.setting import Axes, Observation, Setting
from conformance.model.verdict import Unsupported
from conformance.oracle.question import Question
from conformance.suites.common import checks, training
from conformance.suites.common.launching import launch
from conformance.suites.common.resuming import AFTER, BEFORE, attempt, question

CHECKPOINTS = "checkpoints"
"""Name of the folder, in the cell's folder, where Trainer saves."""


def oracle_training(axes: Axes, observations: list[Observation], measured: dict[str, float], asked: Question) -> None:
    """Every rank took the steps that were asked for, by Trainer's count and the engine's, and trained as the oracle."""
    checks.world_is(observations, asked.world)
    checks.ranks_agree(observations, "digest", "computing_digest", "rates")
    steps_are(observations, asked.steps)
    checks.feature_is_on(
        observations,
        asked,
        stage=int(axes["stage"]),
        transport=observations[0]["asked_transport"],
        **checks.MLP,
    )
    checks.follows_oracle(observations, asked, measured)


def steps_are(observations: list[Observation], steps: int) -> None:
    """Trainer and the engine under it count the same steps."""
    for rank, each in enumerate(observations):
        found = (each["trainer_steps"], each["steps"])
        assert found == (steps, steps), f"rank {rank}: Trainer and engine count {found} steps, expected {steps} in both"


# --- how long, and with what beside ---------------------------------------------------------------------------------


def train_to_max_steps(setting: Setting) -> Observation:
    """Train until max_steps."""
    from conformance.suites.common import trainers

    asked = training.question(setting.parameters)
    running = trainers.trainer(setting, asked, trainers.config(asked, setting["stage"]))
    module = trainers.Account(asked)
    trainers.fit(running, module)
    return trainers.report(setting, running, module)


@case("lightning/max_steps", train_to_max_steps)
def check_max_steps(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """max_steps counts optimizer steps, whatever is accumulated, and ends the training there."""
    asked = training.question(axes)
    for rank, each in enumerate(observations):
        found, wanted = len(each["micro_losses"]), asked.steps * asked.accumulation
        assert found == wanted, f"rank {rank} trained on {found} micro-batches, expected {wanted}"
    oracle_training(axes, observations, measured, asked)


def metric(number: int) -> float:
    """What is validated: better once, worse from then on."""
    return [3.0, 2.0, 2.5, 2.5, 2.5, 2.5][number]


STOPS_AT = 4
"""Steps after which a patience of two ends the training, with a validation after each step: 3, 2, 2.5, 2.5."""


def train_until_stopped(setting: Setting) -> Observation:
    """Train with early stopping, where the ranks' own metrics differ."""
    from pytorch_lightning.callbacks import EarlyStopping

    from conformance.suites.common import trainers

    asked = training.question(setting.parameters, steps=6)
    stopping = EarlyStopping("metric", patience=2)
    running = trainers.trainer(
        setting,
        asked,
        trainers.config(asked, setting["stage"]),
        callbacks=[stopping],
        num_sanity_val_steps=0,
    )
    module = trainers.Account(asked, metric=metric)
    trainers.fit(running, module, val_dataloaders=trainers.ValidationLoader(asked))
    return {"best": float(stopping.best_score), **trainers.report(setting, running, module)}


@case("lightning/early_stopping", train_until_stopped)
def check_early_stopping(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """All ranks stop after the same step, by the mean of their metrics."""
    asked = dataclasses.replace(training.question(axes), steps=STOPS_AT)
    mean = metric(1) + (asked.world - 1) / 2
    best = [each["best"] for each in observations]
    assert best == [mean] * asked.world, f"the best metrics are {best}, expected the ranks' mean, {mean}"
    oracle_training(axes, observations, measured, asked)


def train_and_validate(setting: Setting) -> Observation:
    """Validate before and after each step; then validate and train anew with the same config in the same process."""
    import torch

    from conformance import models
    from conformance.integrations import master_weights
    from conformance.suites.common import trainers

    asked = training.question(setting.parameters)
    settings = trainers.config(asked, setting["stage"])
    before = repr(settings)
    batches = trainers.ValidationLoader(asked)
    running = trainers.trainer(setting, asked, settings, num_sanity_val_steps=1)
    module = trainers.Account(asked)
    trainers.fit(running, module, val_dataloaders=batches)
    told = trainers.report(setting, running, module)

    plain = models.build(asked.task, asked.seed)
    weights = master_weights.module_weights(running.strategy.model)
    plain.load_state_dict({name.removeprefix("model."): torch.from_numpy(array) for name, array in weights.items()})
    inputs, targets = models.global_batch(asked.task, trainers.VALIDATION)
    with torch.no_grad():
        wanted = models.task(asked.task).loss(plain(inputs), targets).item()

    tried = attempt(lambda: running.validate(module, batches, verbose=False))
    alone = module.validated[-1]
    again = trainers.trainer(setting, asked, settings, num_sanity_val_steps=0)
    fresh = trainers.Account(asked)
    trainers.fit(again, fresh)
    return {
        **told,
        "wanted": wanted,
        "alone": alone,
        "alone_error": tried.error,
        "config_kept": repr(settings) == before,
        "again": {"digest": trainers.report(setting, again, fresh)["digest"]},
    }


@case("lightning/validation", train_and_validate)
def check_validation(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Validation sees the weights of the moment and changes nothing; config and process serve a second Trainer."""
    asked = training.question(axes)
    for rank, each in enumerate(observations):
        assert len(each["validated"]) == 1 + asked.steps, (
            f"rank {rank}: {len(each['validated'])} validations in fit, expected one before it and one a step"
        )
        assert each["alone_error"] is None, f"rank {rank}: Trainer.validate after fit raised {each['alone_error']}"
        for what, found in (("fit", each["validated"][-1]), ("Trainer.validate", each["alone"])):
            assert math.isclose(found, each["wanted"], rel_tol=1e-5), (
                f"rank {rank}: {what} found the loss {found}, the weights have {each['wanted']}"
            )
        assert each["config_kept"], f"rank {rank}: the caller's config was changed"
        assert each["again"]["digest"] == each["digest"], f"rank {rank}: a second Trainer trained to other weights"
    oracle_training(axes, observations, measured, asked)


# --- resuming -------------------------------------------------------------------------------------------------------


class Interruption(Exception):
    """What ends a run amid training."""


def saver(setting: Setting) -> Any:
    """The callback that saves each step, and a copy called last."""
    from pytorch_lightning.callbacks import ModelCheckpoint

    return ModelCheckpoint(setting.folder / CHECKPOINTS, save_last=True, save_top_k=1, every_n_train_steps=1)


def train_and_save(setting: Setting) -> Observation:
    """Train some steps and save each; `ends` says what ends the run: max_steps, an error or Ctrl-C after the steps."""
    from pytorch_lightning.callbacks import Callback

    from conformance.suites.common import trainers

    asked = question(setting.parameters)
    ends = setting.get("ends", "max_steps")

    class End(Callback):  # type: ignore[misc]
        def on_train_batch_start(self, running: Any, *_: Any) -> None:
            if running.global_step == BEFORE and ends != "max_steps":
                raise KeyboardInterrupt if ends == "keyboard" else Interruption

    client = setting.get("schedule") == "client"
    running = trainers.trainer(
        setting,
        asked,
        trainers.config(asked, setting["stage"], client=client),
        enable_checkpointing=True,
        max_steps=BEFORE if ends == "max_steps" else asked.steps,
        callbacks=[End(), saver(setting)],
    )
    module = trainers.Account(asked, client=client)
    ended = None
    try:
        trainers.fit(running, module, length=asked.steps * asked.accumulation)
    except (Interruption, KeyboardInterrupt, SystemExit) as error:
        ended = type(error).__name__
    steps = int(running.global_step)
    folder = setting.folder / CHECKPOINTS / "last.ckpt"
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {"ended": ended, "trainer_steps": steps, "rates": module.rates, "files": files}


def resume_last(setting: Setting) -> Observation:
    """Start from other weights with ckpt_path="last", which is a plain start where nothing was saved."""
    from conformance.suites.common import trainers

    asked = question(setting.parameters)
    client = setting.get("schedule") == "client"
    running = trainers.trainer(
        setting,
        asked,
        trainers.config(asked, setting["stage"], client=client),
        enable_checkpointing=True,
        callbacks=[saver(setting)] if setting["resumes"] else [],
    )
    module = trainers.Account(training.reseeded(asked) if setting["resumes"] else asked, client=client)
    length = asked.steps * asked.accumulation
    trainers.fit(running, module, length=length, **({"ckpt_path": "last"} if setting["resumes"] else {}))
    return trainers.report(setting, running, module)


def save_resume_and_compare(axes: Axes) -> list[Step]:
    """The run that ends, the run that resumes, and the run without interruption."""
    return [
        Step(train_and_save),
        Step(resume_last, parameters={"resumes": True}),
        Step(resume_last, parameters={"resumes": False}),
    ]


def resumed_as_if_never_ended(axes: Axes, steps: list[list[Observation]]) -> None:
    """The resumed run trained the rest only, and came to the uninterrupted run's weights bit by bit."""
    ended, resumed, whole = steps
    asked = question(axes)
    for rank, each in enumerate(ended):
        assert each["trainer_steps"] == BEFORE, f"rank {rank} took {each['trainer_steps']} steps, expected {BEFORE}"
        assert "latest" in each["files"], f"rank {rank}: no checkpoint of DeepSpeed's in last.ckpt: {each['files']}"
    for observations in (resumed, whole):
        checks.world_is(observations, asked.world)
        checks.ranks_agree(observations, "digest")
        steps_are(observations, BEFORE + AFTER)
    tail = [{**each, "losses": each["losses"][BEFORE:]} for each in whole]
    checks.same_training(tail, resumed)


@case("lightning/last", plan=save_resume_and_compare)
def check_last(axes: Axes, steps: list[list[Observation]]) -> None:
    """ckpt_path="last" finds the newest checkpoint and goes on from it."""
    resumed_as_if_never_ended(axes, steps)


ENDS = {"error": "Interruption", "keyboard": "SystemExit"}
"""What `fit` raises when it is interrupted: the error itself; after Ctrl-C it ends the process."""


@case("lightning/interrupted", plan=save_resume_and_compare)
def check_interrupted(axes: Axes, steps: list[list[Observation]]) -> None:
    """A run that an error or Ctrl-C ended amid an epoch goes on where it was."""
    found, wanted = [each["ended"] for each in steps[0]], ENDS[str(axes["ends"])]
    assert found == [wanted] * len(found), f"fit raised {found}, expected {wanted} in every rank"
    resumed_as_if_never_ended(axes, steps)


@case("lightning/schedule", plan=save_resume_and_compare)
def check_schedule(axes: Axes, steps: list[list[Observation]]) -> None:
    """The client's schedule is stepped once a step, and goes on after a resume where it was."""
    from conformance.suites.common.training import question as usual

    lr, decay = dict(usual(axes).optimizer.options)["lr"], 0.8
    rates = [lr * decay**step for step in range(BEFORE + AFTER)]
    for name, observations, wanted in (
        ("before the end", steps[0], rates[:BEFORE]),
        ("after the resume", steps[1], rates[BEFORE:]),
        ("without interruption", steps[2], rates),
    ):
        for rank, each in enumerate(observations):
            assert len(each["rates"]) == len(wanted) and np.allclose(each["rates"], wanted, rtol=1e-9, atol=0), (
                f"rank {rank}: {name} the learning rates are {each['rates']}, expected {wanted}"
            )
    resumed_as_if_never_ended(axes, steps)


# --- what must be counted or done once ------------------------------------------------------------------------------

ODD = 3
"""Micro-batches an epoch where two are accumulated: the last of an epoch is alone."""


def train_odd_epochs(setting: Setting) -> Observation:
    """Two epochs of an odd number of micro-batches."""
    from conformance.suites.common import trainers

    asked = dataclasses.replace(training.question(setting.parameters), accumulation=2)
    running = trainers.trainer(setting, asked, trainers.config(asked, setting["stage"]), max_steps=-1, max_epochs=2)
    module = trainers.Account(asked)
    trainers.fit(running, module, length=ODD)
    return trainers.report(setting, running, module)


def odd_epochs(asked: Question) -> dict[str, Any]:
    """The weights after two odd epochs in plain PyTorch: a step after two micro-batches and after an epoch's last, each
    with the sum of the gradients of losses halved."""
    import torch

    from conformance import models

    model = models.build(asked.task, asked.seed)
    optimizer = torch.optim.AdamW(model.parameters(), **dict(asked.optimizer.options))
    for micro in range(2 * ODD):
        step, place = divmod(micro, asked.accumulation)
        for rank in range(asked.world):
            batch = models.micro_batch(
                asked.task, step, micro=place, accumulation=asked.accumulation, rank=rank, world=asked.world
            )
            loss = models.task(asked.task).loss(model(batch[0]), batch[1]) / (asked.accumulation * asked.world)
            torch.autograd.backward(loss)
        if micro % ODD in (1, 2):
            optimizer.step()
            optimizer.zero_grad()
    return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


@case("lightning/boundary", train_odd_epochs)
def check_boundary(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Trainer ends an accumulation with the epoch, and the engine under it steps there and nowhere else."""
    asked = dataclasses.replace(training.question(axes), accumulation=2)
    steps_are(observations, 4)
    checks.ranks_agree(observations, "digest")
    wanted, found = odd_epochs(asked), observations[0]["weights"]
    worst = max(float(np.abs(found[name] - array).max()) for name, array in wanted.items())
    measured.update(weights_error=worst, weights_error_tolerance=1e-6)
    # Sums in another order, through four steps of AdamW: see expecting.TOLERANCE.
    assert worst <= 1e-6, f"weights are {worst:.3g} from plain torch's, which steps after 2, 1, 2 and 1 micro-batches"


NORM = training.CLIPPING
CLIPPINGS: dict[str, tuple[float | None, float | None, str | None]] = {
    # by where: Trainer's norm, the config's, and what must be said instead of training
    "trainer": (NORM, None, None),
    "config": (None, NORM, None),
    "both": (NORM, NORM, None),
    "unlike": (
        2 * NORM,
        NORM,
        r"ConfigError: gradient_clipping: found 0\.2 in the DeepSpeed config, gradient_clip_val=0\.4",
    ),
    "value": (NORM, None, r"MisconfigurationException: DeepSpeed does not support clipping gradients by value"),
}


def train_clipped(setting: Setting) -> Observation:
    """Train with the norm said in one place or two."""
    from conformance.suites.common import trainers

    asked = dataclasses.replace(training.question(setting.parameters), clipping=NORM)
    trainers_norm, configs_norm, _ = CLIPPINGS[setting["where"]]
    settings = trainers.config(asked, setting["stage"])
    if configs_norm is not None:
        settings["gradient_clipping"] = configs_norm
    running = trainers.trainer(
        setting,
        asked,
        settings,
        gradient_clip_val=trainers_norm,
        gradient_clip_algorithm="value" if setting["where"] == "value" else None,
    )
    module = trainers.Account(asked)
    tried = attempt(lambda: trainers.fit(running, module))
    return {"refused": tried.error} if tried.error else trainers.report(setting, running, module)


@case("lightning/clipping", train_clipped)
def check_clipping(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Gradients are clipped once, by the one norm that was said; two norms, or values, are refused."""
    refusal = CLIPPINGS[str(axes["where"])][2]
    refused = [each.get("refused") for each in observations]
    if refusal is not None:
        raise Unsupported(checks.every_rank_raised(refused, refusal, "this clipping"))
    assert not any(refused), f"one norm was refused: {refused}"
    oracle_training(axes, observations, measured, dataclasses.replace(training.question(axes), clipping=NORM))


def train_mixed(setting: Setting) -> Observation:
    """Train in bf16 by Trainer's precision, or by DeepSpeed's config."""
    from conformance.suites.common import trainers

    asked = training.question({**setting.parameters, "dtype": "bf16"})
    settings = trainers.config(asked, setting["stage"])
    by_trainer = setting["by"] == "trainer"
    if by_trainer:
        del settings["bf16"]
    running = trainers.trainer(setting, asked, settings, precision="bf16-mixed" if by_trainer else None)
    module = trainers.Account(asked)
    trainers.fit(running, module)
    return trainers.report(setting, running, module)


@case("lightning/precision", train_mixed)
def check_precision(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """precision="bf16-mixed" is the config's bf16: weights and activations are rounded, and nothing else is."""
    oracle_training(axes, observations, measured, training.question({**axes, "dtype": "bf16"}))
    for rank, each in enumerate(observations):
        found = each["target_dtypes"]
        assert found == ["torch.float32"], f"rank {rank}: training_step was given targets in {found}, they are float32"


# --- starting -------------------------------------------------------------------------------------------------------


def train_in_circumstances(setting: Setting) -> Observation:
    """Train in circumstances in which Lightning's own strategy starts wrongly; keep how DeepSpeed was called."""
    import deepspeed

    from conformance.integrations.lightning import make_trainer
    from conformance.reference.lightning import TrainerStrategy
    from conformance.suites.common import trainers

    asked = training.question(setting.parameters)
    called: dict[str, Any] = {}
    initialize = deepspeed.initialize

    def seen(*arguments: Any, **named: Any) -> Any:
        called["given"] = sorted([name for name, value in named.items() if value is not None], key=str)
        called["positional"] = len(arguments)
        called["told"] = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
        return initialize(*arguments, **named)

    options: dict[str, Any] = {"transport": setting.transport}
    devices = setting.world
    with contextlib.ExitStack() as circumstances:
        circumstances.callback(setattr, deepspeed, "initialize", initialize)
        deepspeed.initialize = seen
        match setting["circumstance"]:
            case "windows_branch":
                circumstances.enter_context(_platform_says("Windows"))
            case "mpi_without_library":
                circumstances.enter_context(_unusable_mpi())
            case "open_mpi_local_rank":
                os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] = os.environ["LOCAL_RANK"]
            case "other_open_mpi_local_rank":
                os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] = "7"
            case "backend_override":
                options = {"process_group_backend": setting.transport}
            case "fewer_devices":
                devices = 1
        strategy = TrainerStrategy(trainers.config(asked, setting["stage"]), **options)

        def begin() -> Any:
            running = make_trainer(
                setting, strategy, devices=devices, max_steps=asked.steps, gradient_clip_val=asked.clipping
            )
            trainers.fit(running, module)
            return running

        module = trainers.Account(asked)
        tried = attempt(begin)
    if tried.error is not None:
        return {"refused": tried.error}
    return {"called": called, **trainers.report(setting, tried.result, module)}


@contextlib.contextmanager
def _platform_says(name: str) -> Iterator[None]:
    """Let Lightning, which asks `platform.system()`, take the branch that it has for a system."""
    import platform

    system = platform.system
    platform.system = lambda: name
    try:
        yield
    finally:
        platform.system = system


@contextlib.contextmanager
def _unusable_mpi() -> Iterator[None]:
    """Let `from mpi4py import MPI` raise what it raises where there is no MPI library."""

    class Package(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name == "MPI":
                raise RuntimeError("cannot load MPI library")
            raise AttributeError(name)

    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "mpi4py"}
    sys.modules["mpi4py"] = Package("mpi4py")
    try:
        yield
    finally:
        del sys.modules["mpi4py"]
        sys.modules.update(before)


REFUSALS = {
    "other_open_mpi_local_rank": r"TopologyError: LOCAL_RANK: found \d, while OMPI_COMM_WORLD_LOCAL_RANK is 7",
    "fewer_devices": r"TopologyError: devices, num_nodes: found devices=1, num_nodes=1; expected a product of 2",
}


@case("lightning/start", train_in_circumstances)
def check_start(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Ranks, transport and engine are started rightly, without an args object, or refused with what contradicts."""
    circumstance = str(axes["circumstance"])
    refused = [each.get("refused") for each in observations]
    if circumstance in REFUSALS:
        raise Unsupported(checks.every_rank_raised(refused, REFUSALS[circumstance], circumstance))
    assert not any(refused), f"{circumstance}: the start was refused: {refused}"
    asked = training.question(axes)
    for rank, each in enumerate(observations):
        called = each["called"]
        assert not called["positional"] and "args" not in called["given"], (
            f"rank {rank}: deepspeed.initialize was given args: {called}"
        )
        told = [called["told"][name] for name in ("RANK", "WORLD_SIZE")]
        assert told == [str(rank), str(asked.world)], f"rank {rank}: RANK and WORLD_SIZE were {told}"
    oracle_training(axes, observations, measured, asked)


def make_lightnings_trainer(setting: Setting) -> Observation:
    """A Trainer with Lightning's own strategy and as many devices as there are ranks, where MPI has no library."""
    from pytorch_lightning.strategies import DeepSpeedStrategy

    from conformance.integrations.lightning import make_trainer

    with _unusable_mpi():
        tried = attempt(lambda: make_trainer(setting, DeepSpeedStrategy()))
    return {"error": tried.error}


@case("lightning/unusable_mpi4py", make_lightnings_trainer)
def check_unusable_mpi4py(observations: list[Observation]) -> None:
    """A Trainer of several devices can be made where mpi4py is installed and no MPI library is."""
    for rank, each in enumerate(observations):
        assert each["error"] is None, f"rank {rank}: Trainer raised {each['error']} though no mpiexec started it"


# --- started by torchrun, and killed --------------------------------------------------------------------------------

TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
SECONDS = 100.0


def launch_and_kill(setting: Setting) -> Observation:
    """torchrun starts ranks, of which one kills itself after some steps."""
    worker = "conformance.suites.common.launched_trainer"
    return launch(setting, [[*TORCHRUN, "-m"]], setting["ranks"], SECONDS, worker=worker)


def launch_twice_and_train(axes: Axes) -> list[Step]:
    ranks = int(axes["ranks"])
    return [
        Step(launch_and_kill, world=1, launches=ranks, parameters={"kills": True, "name": "killed"}),
        Step(launch_and_kill, world=1, launches=ranks, parameters={"kills": False, "name": "resumed"}),
        Step(resume_last, world=ranks, parameters={"resumes": False, "world": ranks}),
    ]


@case("lightning/killed", plan=launch_twice_and_train)
def check_killed(steps: list[list[Observation]]) -> None:
    """Under torchrun, after a rank was killed, the same command goes on from the last step that was saved."""
    (killed,), (resumed,), whole = steps
    assert killed["exits"] != [0], f"torchrun ended well though a rank was killed: {killed['output']}"
    assert killed["ranks"] == [None] * len(whole), "a rank of the killed run came to its end"
    assert resumed["exits"] == [0], f"torchrun's exit is {resumed['exits']}: {resumed['output']}"
    steps_are(resumed["ranks"], BEFORE + AFTER)
    tail = [{**each, "losses": each["losses"][BEFORE:]} for each in whole]
    checks.same_training(tail, resumed["ranks"])
