"""Offload: the same training with the optimizer's state, or the parameters, on the CPU or on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.model.case import Step, case
from conformance.model.setting import Axes, Observation, Setting
from conformance.model.verdict import Unsupported
from conformance.oracle.question import Question
from conformance.suites.common import checks, training
from conformance.suites.common.resuming import attempt, question, resumed_run, saved_run

SHAPES = {
    "mlp": checks.MLP,
    "wide": {"total": 1352430, "tensors": 6, "matrices": 5},
}
"""What `checks.feature_is_on` expects of the models; of the wide one, only its smallest bias stays whole in stage 3."""

ADAMS = {
    "torch": "torch.optim.adamw.AdamW",
    "client": "torch.optim.adamw.AdamW",
    "deepspeed": "deepspeed.ops.adam.cpu_adam.DeepSpeedCPUAdam",
}


OPTIONS: dict[str, dict[str, Any]] = {
    "pinned": {"pin_memory": True},
    "pipeline_read": {"pipeline_read": True},
    "pipeline_write": {"pipeline_write": True},
    "pipeline_both": {"pipeline_read": True, "pipeline_write": True},
    "fast_init": {"fast_init": True},
    "many_buffers": {"buffer_count": 9},
}
"""Ways to swap the optimizer's state that change nothing about it, laid over offload_optimizer."""


def task(axes: Axes) -> str:
    """The model: wide where anything goes to disk, since less than a mebibyte a rank stays in memory there."""
    return "wide" if "nvme" in (axes.get("optimizer"), axes.get("parameters")) else "mlp"


def asked(axes: Axes) -> Question:
    """What the oracle is asked: offload changes nothing about it."""
    return training.question(axes, task=task(axes))


def sections(setting: Setting) -> dict[str, Any]:
    """The parts of zero_optimization that ask for the cell's offload."""
    made: dict[str, Any] = {}
    swap = str(setting.folder / "swap")
    for axis, section in (("optimizer", "offload_optimizer"), ("parameters", "offload_param")):
        if (device := setting.get(axis, "none")) != "none":
            made[section] = {"device": device, "pin_memory": bool(setting.get("pin_memory", False))}
            if device == "nvme":
                made[section]["nvme_path"] = swap
            if device == "nvme" and axis == "parameters":
                made[section].update(buffer_size=1_400_000, max_in_cpu=0)
    made.get("offload_optimizer", {}).update(OPTIONS.get(setting.get("option", ""), {}))
    if "ratio" in setting.parameters:
        # Whole sub-groups stay behind, so that there must be several.
        made["offload_optimizer"]["ratio"] = setting["ratio"]
        made["sub_group_size"] = 500
    return made


def config(setting: Setting, question: Question) -> dict[str, Any]:
    """DeepSpeed's config for the cell."""
    made = training.config(question, stage=setting["stage"], zero=sections(setting))
    if setting.get("adam", "torch") == "deepspeed":
        del made["optimizer"]["params"]["torch_adam"]
    if setting.get("adam") == "client":
        del made["optimizer"]
        made["zero_force_ds_cpu_optimizer"] = False
    return made


def arguments(setting: Setting, question: Question) -> dict[str, Any]:
    """What the integration is given beside model and config."""
    if setting.get("adam") != "client":
        return {}
    import torch

    return {"optimizer": lambda parameters: torch.optim.AdamW(parameters, **dict(question.optimizer.options))}


def offloaded(session: Any, folder: Path) -> Observation:
    """What the engine and the disk say about where things are."""
    optimizer = session.engine.optimizer
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
    return {
        "optimizer_on_cpu": bool(
            getattr(optimizer, "cpu_offload", False) or getattr(optimizer, "offload_optimizer", False)
        ),
        "optimizer_on_disk": bool(getattr(optimizer, "swap_optimizer", False)),
        "sub_groups_at": [str(each) for each in getattr(optimizer, "subgroup_to_device", {}).values()],
        "parameters_on_cpu": bool(getattr(optimizer, "offload_param", False)),
        "parameters_on_disk": bool(getattr(optimizer, "params_in_nvme_and_cpu", False)),
        "optimizer_files": sum(path.stat().st_size for path in files if "optimizer" in path.parts),
        "parameter_files": sum(path.stat().st_size for path in files if "param" in str(path.parent)),
        "files": sorted(str(path.relative_to(folder)) for path in files)[:20],
    }


def train(setting: Setting) -> Observation:
    """Train with offload, or tell how that was refused."""
    question = asked(setting.parameters)
    tried = attempt(
        lambda: training.start(setting, question, config(setting, question), **arguments(setting, question))
    )
    if tried.error is not None:
        return {"refused": tried.error}
    session = tried.result
    progress = training.train(session, question)
    where = offloaded(session, setting.folder / "swap")
    told = training.report(session, progress)
    session.stop()
    return {"device": setting.device, "asked_transport": setting.transport, **where, **told}


def offload_is_honoured(axes: Axes, observations: list[Observation]) -> None:
    """What was asked to be on the CPU or on disk is there; the files' sizes tell for the disk."""
    optimizer, parameters = axes.get("optimizer", "none"), axes.get("parameters", "none")
    shape = SHAPES[task(axes)]
    share = shape["total"] // len(observations)
    for rank, each in enumerate(observations):
        if optimizer != "none":
            assert each["optimizer_on_cpu"], f"rank {rank}: offload_optimizer was accepted and is not in use"
        if optimizer == "nvme":
            assert each["optimizer_on_disk"], f"rank {rank}: offload_optimizer to nvme was accepted and is not in use"
            # Weights, momentum and variance in float32, for all ranks in one folder.
            least = 3 * 4 * share * len(observations) * 0.9
            assert each["optimizer_files"] >= least, (
                f"rank {rank}: the optimizer's swap files hold {each['optimizer_files']} bytes, "
                f"expected {least:.0f} or more: {each['files']}"
            )
        if parameters != "none":
            assert each["parameters_on_cpu"], f"rank {rank}: offload_param was accepted and is not in use"
        if parameters == "nvme":
            assert each["parameters_on_disk"], f"rank {rank}: offload_param to nvme was accepted and is not in use"
            width = 4 if axes["dtype"] == "fp32" else 2
            least = width * share * len(observations) * 0.9
            assert each["parameter_files"] >= least, (
                f"rank {rank}: the parameters' swap files hold {each['parameter_files']} bytes, "
                f"expected {least:.0f} or more: {each['files']}"
            )


def same_training(axes: Axes, observations: list[Observation], measured: dict[str, float], adam: str) -> None:
    """Everything that training without offload must also be."""
    question = asked(axes)
    checks.world_is(observations, question.world)
    checks.ranks_agree(observations, "digest", "computing_digest")
    found = [each["basic_optimizer"] for each in observations]
    assert found == [ADAMS[adam]] * len(found), f"the optimizers are {found}, expected {ADAMS[adam]}"
    offload_is_honoured(axes, observations)
    checks.computing_weights_are_rounded_masters(observations[0], question.dtype)
    checks.follows_oracle(observations, question, measured)


@case("offload/train", train)
def check_train(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The oracle's trajectory with everything where it was asked to be."""
    refused = [each.get("refused") for each in observations]
    assert not any(refused), f"the combination is documented, and was refused: {refused}"
    same_training(axes, observations, measured, str(axes.get("adam", "torch")))


@case("offload/without_effect", train)
def check_without_effect(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """An offload that the stage does not have is refused; if it is accepted, then it must be honoured."""
    refused = [each.get("refused") for each in observations]
    if any(refused):
        raise Unsupported(checks.every_rank_raised(refused, r"offload", "an offload that the stage does not have"))
    same_training(axes, observations, measured, "torch")


@case("offload/ratio", train)
def check_ratio(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """A part of the optimizer stays where the parameters are, and trains as the part that is offloaded."""
    for rank, each in enumerate(observations):
        stay = sum(place != "cpu" for place in each["sub_groups_at"])
        expected = int((1 - float(axes["ratio"])) * len(each["sub_groups_at"]))
        assert len(each["sub_groups_at"]) > 2, f"rank {rank} has {each['sub_groups_at']}: there is nothing to share out"
        assert stay == expected, f"rank {rank}: {stay} sub-groups stay, expected {expected} of {each['sub_groups_at']}"
    check_train({**axes, "adam": "deepspeed"}, observations, measured)


@case("offload/option", train)
def check_option(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Pinned memory, pipelining, fast initialisation and more buffers change nothing about the numbers."""
    check_train({**axes, "adam": "torch"}, observations, measured)


def train_without_library(setting: Setting) -> Observation:
    """Ask for NVMe on a host whose async_io cannot be built, as without libaio's headers."""
    from deepspeed.ops.op_builder import AsyncIOBuilder

    question = asked(setting.parameters)
    AsyncIOBuilder.is_compatible = lambda self, verbose=False: False
    AsyncIOBuilder._loaded_ops.pop(AsyncIOBuilder.NAME, None)
    return {"refused": attempt(lambda: training.start(setting, question, config(setting, question))).error}


@case("offload/without_library", train_without_library)
def check_without_library(observations: list[Observation]) -> None:
    """The error is one of the op's, in every rank."""
    checks.every_rank_raised([each["refused"] for each in observations], "async_io", "NVMe without async_io")


def train_on_full_disk(setting: Setting) -> Observation:
    """Begin to train when no file may grow beyond some kilobytes, as if the disk were full."""
    from conformance.suites.checkpoint import small_files

    question = asked(setting.parameters)

    def begin_and_train() -> None:
        session = training.start(setting, question, config(setting, question))
        training.train(session, question, steps=2)

    with small_files():
        return {"refused": attempt(begin_and_train).error}


@case("offload/full_disk", train_on_full_disk)
def check_full_disk(observations: list[Observation]) -> None:
    """A disk without space is told by an error in every rank; no rank waits, and none trains on with lost state."""
    checks.every_rank_raised([each["refused"] for each in observations], r".+: .+", "swapping to a full disk")


def save(setting: Setting) -> Observation:
    """Train, save, and train on."""
    wanted = question(setting.parameters, task(setting.parameters))
    session = training.start(setting, wanted, config(setting, wanted))
    told = saved_run(setting, session, wanted, lambda: session.save(setting.folder / "checkpoint"))
    return told


def resume(setting: Setting) -> Observation:
    """Resume from other weights and an empty swap folder."""
    import shutil

    import torch

    wanted = question(setting.parameters, task(setting.parameters))
    if setting.rank in (0, None):
        shutil.rmtree(setting.folder / "swap", ignore_errors=True)
    session = training.start(setting, training.reseeded(wanted), config(setting, wanted))
    torch.distributed.barrier()
    return resumed_run(setting, session, wanted, lambda: session.load(setting.folder / "checkpoint"))


@case("offload/resume", plan=lambda axes: [Step(save), Step(resume)])
def check_resume(axes: Axes, steps: list[list[Observation]]) -> None:
    """A run with offload resumes as one without: bit by bit."""
    saved, resumed = steps
    checks.ranks_agree(resumed, "loaded", "digest")
    checks.resumed_what_was_saved(saved[0], resumed[0])
    checks.same_training(saved, resumed)
    del axes


def move_states(setting: Setting) -> Observation:
    """Move an engine's states away and back between steps."""
    from deepspeed.runtime.zero.offload_config import OffloadStateTypeEnum

    wanted = training.question(setting.parameters)
    made = training.config(wanted, stage=setting["stage"])
    if setting["adam"] == "fused":
        del made["optimizer"]["params"]["torch_adam"]
    session = training.start(setting, wanted, made)
    include = None if setting["states"] == "all" else [getattr(OffloadStateTypeEnum, setting["states"])]
    progress = training.train(session, wanted, steps=2)
    tried = attempt(lambda: session.engine.offload_states(include=include, pin_memory=False))
    if tried.error is not None:
        return {"refused": tried.error}
    away = sorted(state.value for state in session.engine.optimizer.offloaded_states)
    session.engine.reload_states()
    back = sorted(state.value for state in session.engine.optimizer.offloaded_states)
    rest = training.train(session, wanted, first=2, steps=wanted.steps - 2)
    progress.losses += rest.losses
    progress.gradient_norms += rest.gradient_norms
    told = training.report(session, progress)
    session.stop()
    return {"device": setting.device, "away": away, "back": back, **told}


@case("offload/move_states", move_states)
def check_move_states(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """States that were moved away and back leave training as it is; stage 3 moves no optimizer but FusedAdam."""
    refused = [each.get("refused") for each in observations]
    if any(refused):
        pattern = r"AssertionError: Offloading is supported only for DeepSpeed FusedAdam"
        error = checks.every_rank_raised(refused, pattern, "moving the states")
        assert axes["stage"] == 3 and axes["adam"] == "torch", f"refused with {axes['adam']} Adam: {error}"
        raise Unsupported(error)
    for rank, each in enumerate(observations):
        assert each["away"], f"rank {rank}: the engine says that nothing was moved"
        assert axes["states"] == "all" or each["away"] == [axes["states"]], f"rank {rank}: moved were {each['away']}"
        assert not each["back"], f"rank {rank}: after reload_states, {each['back']} are still away"
    checks.ranks_agree(observations, "digest")
    checks.follows_oracle(observations, training.question(axes), measured)


def swap_where_it_cannot(setting: Setting) -> Observation:
    """Ask for a swap folder that cannot be used."""
    question = asked(setting.parameters)
    made = config(setting, question)
    blocked = setting.folder / "a file"
    blocked.write_text("not a folder", encoding="utf-8")
    section: Mapping[str, str] = {"optimizer": "offload_optimizer", "parameters": "offload_param"}
    for axis, name in section.items():
        if setting.get(axis) != "nvme":
            continue
        if setting["place"] == "none":
            del made["zero_optimization"][name]["nvme_path"]
        else:
            made["zero_optimization"][name]["nvme_path"] = str(blocked)
    return {"refused": attempt(lambda: training.start(setting, question, made)).error}


@case("offload/swap_place", swap_where_it_cannot)
def check_swap_place(axes: Axes, observations: list[Observation]) -> None:
    """A swap folder that cannot be used is refused in every rank with an error that names it."""
    refused = [each["refused"] for each in observations]
    pattern = "nvme_path" if axes["place"] == "none" else r"(FileExistsError|NotADirectoryError): .*a file"
    checks.every_rank_raised(refused, pattern, "the swap folder")
