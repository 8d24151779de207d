"""Checkpoints: what was saved is what resumes, and what cannot be is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from conformance.model.case import Step, case
from conformance.model.setting import Axes, Observation, Setting
from conformance.model.verdict import Unsupported
from conformance.suites.common import checks, observing, training
from conformance.suites.common.expecting import assert_raised
from conformance.suites.common.resuming import (
    AFTER,
    BEFORE,
    FOLDER,
    attempt,
    begin,
    finished_run,
    question,
    resumed_run,
    saved_run,
)

CLIENT_STATE = {"epoch": 7, "text": "Grüße", "nested": {"list": [1, 2.5, None]}}
COUNTS = {"global_steps": BEFORE, "global_samples": BEFORE * 16, "skipped_steps": 0}
TAG = f"global_step{BEFORE}"


def checkpoint(setting: Setting) -> Path:
    """Where this cell's runs save."""
    return setting.folder / FOLDER


def partition(setting: Setting) -> dict[str, Any]:
    """What the cell asks of zero_optimization beside the stage."""
    return {"round_robin_gradients": True} if setting.get("partition") == "round_robin" else {}


# --- the same world -----------------------------------------------------------------------------------------------


def save(setting: Setting) -> Observation:
    """Train, save, and train on without interruption."""
    asked = question(setting.parameters)
    session = begin(setting, asked)
    return saved_run(setting, session, asked, lambda: session.save(checkpoint(setting), client_state=CLIENT_STATE))


def resume(setting: Setting) -> Observation:
    """Start from other weights, load, and train on."""
    asked = question(setting.parameters)
    session = begin(setting, asked, fresh=True)
    states: list[dict[str, Any] | None] = []
    told = resumed_run(setting, session, asked, lambda: states.append(session.load(checkpoint(setting))))
    kept = None if states[0] is None else {name: states[0].get(name) for name in CLIENT_STATE}
    return {"client_state": kept, **told}


def save_then_resume(axes: Axes) -> list[Step]:
    """Two sets of processes, one after the other."""
    return [Step(save), Step(resume)]


@case("checkpoint/resume", plan=save_then_resume)
def check_resume(axes: Axes, steps: list[list[Observation]]) -> None:
    """The resumed run is the uninterrupted one, bit by bit."""
    checks.resumed_rightly(steps, question(axes), stage=int(axes["stage"]), counts=COUNTS)
    checks.ranks_agree(steps[1], "client_state")
    found = steps[1][0]["client_state"]
    assert found == CLIENT_STATE, f"the client state came back as {found}, {CLIENT_STATE} was saved"


def never_save(setting: Setting) -> Observation:
    """The same training without a save."""
    asked = question(setting.parameters)
    return saved_run(setting, begin(setting, asked), asked, lambda: None)


@case("checkpoint/save_disturbs_nothing", plan=lambda axes: [Step(never_save), Step(save)])
def check_save_disturbs_nothing(steps: list[list[Observation]]) -> None:
    """A run that saves on its way is the run that does not."""
    checks.same_training(*steps)


def save_what_was_loaded(setting: Setting) -> Observation:
    """Start from other weights, load, save at once elsewhere, and train on."""
    asked = question(setting.parameters)
    session = begin(setting, asked, fresh=True)

    def load_and_save() -> None:
        session.load(checkpoint(setting))
        session.save(setting.folder / "again", client_state=CLIENT_STATE)

    return resumed_run(setting, session, asked, load_and_save)


def resume_again(setting: Setting) -> Observation:
    """Start from other weights, load what the second process saved, and train on."""
    asked = question(setting.parameters)
    session = begin(setting, asked, fresh=True)
    return resumed_run(setting, session, asked, lambda: session.load(setting.folder / "again"))


@case("checkpoint/resume_twice", plan=lambda axes: [Step(save), Step(save_what_was_loaded), Step(resume_again)])
def check_resume_twice(axes: Axes, steps: list[list[Observation]]) -> None:
    """Saved, loaded, saved and loaded again, the run still goes on as if never interrupted."""
    for resumed in steps[1:]:
        checks.resumed_rightly([steps[0], resumed], question(axes), stage=int(axes["stage"]), counts=COUNTS)


# --- other worlds and other stages --------------------------------------------------------------------------------


def try_to_resume(setting: Setting) -> Observation:
    """Resume, or tell how that was refused."""
    asked = question(setting.parameters)
    stage = int(setting.get("to_stage", setting["stage"]))
    session = begin(setting, asked, fresh=True, stage=stage)
    tried = attempt(lambda: session.load(checkpoint(setting)))
    if tried.error is not None:
        return {"refused": tried.error, "integration": setting.integration}
    return resumed_run(setting, session, asked, lambda: None)


STARTED_BY_REFERENCE = ("reference", "fabric", "lightning")


def save_then_resize(axes: Axes) -> list[Step]:
    """Save on one number of ranks, resume on another."""
    return [Step(save, world=int(axes["saved"])), Step(try_to_resume, world=int(axes["resumed"]))]


@case("checkpoint/resize", plan=save_then_resize)
def check_resize(axes: Axes, steps: list[list[Observation]], measured: dict[str, float]) -> None:
    """Stage 0 resumes on any number of ranks; the stages refuse another than the saved one, and name both."""
    saved, resumed = steps
    refused = [each.get("refused") for each in resumed]
    if any(refused):
        pattern = rf"ZeRORuntimeException: .*world size of {axes['saved']} .*current world size is {axes['resumed']}\."
        if resumed[0].get("integration") in STARTED_BY_REFERENCE:
            numbers = f"found one of {axes['saved']} data-parallel ranks; expected one of {axes['resumed']}, "
            pattern = rf"CheckpointError: checkpoint .*: {numbers}.* Remedy: .* convert it to a universal checkpoint"
        error = checks.every_rank_raised(refused, pattern, "a resume on another number of ranks")
        assert axes["stage"] != 0, f"stage 0 has nothing partitioned, and yet: {error}"
        raise Unsupported(error)
    checks.world_is(resumed, int(axes["resumed"]))
    asked = question({**axes, "world": axes["saved"]})
    checks.same_training_but_for_rounding(saved, resumed, asked, measured)


def save_then_change_stage(axes: Axes) -> list[Step]:
    """Save in one stage, resume in another."""
    return [Step(save), Step(try_to_resume)]


@case("checkpoint/change_stage", plan=save_then_change_stage)
def check_change_stage(axes: Axes, steps: list[list[Observation]], measured: dict[str, float]) -> None:
    """A checkpoint of another stage resumes rightly, or is refused: never does training go on with something else."""
    saved, resumed = steps
    refused = [each.get("refused") for each in resumed]
    if any(refused):
        # An error from amid the loading, or one without a text, says nothing to who asked for another stage.
        told = r"^(?!AttributeError|TypeError|KeyError)\w+: .+"
        raise Unsupported(checks.every_rank_raised(refused, told, "a resume in another stage"))
    checks.world_is(resumed, len(saved))
    checks.ranks_agree(resumed, "digest")
    checks.same_training_but_for_rounding(saved, resumed, question(axes), measured)


# --- universal checkpoints ----------------------------------------------------------------------------------------


def save_for_universal(setting: Setting) -> Observation:
    """Save a checkpoint that says where the universal format finds its parameters, if the cell wants that said."""
    asked = question(setting.parameters)
    session = begin(setting, asked, zero=partition(setting))
    state = {"universal_checkpoint_info": {"universal_checkpoint_version": 0.2}} if setting["info"] == "saved" else {}
    return saved_run(setting, session, asked, lambda: session.save(checkpoint(setting), client_state=state))


def convert(setting: Setting) -> Observation:
    """Convert to the universal format, in one process without torch.distributed."""
    from deepspeed.checkpoint import ds_to_universal

    arguments = Namespace(
        input_folder=str(checkpoint(setting) / TAG),
        output_folder=str(checkpoint(setting) / f"{TAG}_universal"),
        num_extract_workers=1,
        num_merge_workers=1,
        keep_temp_folder=False,
        strict=True,
        inject_missing_state=setting["info"] == "injected",
    )
    tried = attempt(lambda: ds_to_universal.main(arguments))
    if tried.error is None:
        (checkpoint(setting) / "latest_universal").write_text(f"{TAG}_universal", encoding="utf-8")
    return {"refused": tried.error}


def resume_universal(setting: Setting) -> Observation:
    """Start from other weights, load the universal checkpoint, and train on."""
    asked = question(setting.parameters)
    if not (checkpoint(setting) / "latest_universal").exists():
        return {"nothing_to_load": True}
    more = {"checkpoint": {"load_universal": True}}
    session = begin(setting, asked, fresh=True, zero=partition(setting), more=more)
    return resumed_run(setting, session, asked, lambda: session.load(checkpoint(setting)))


def save_convert_resume(axes: Axes) -> list[Step]:
    """Save on one number of ranks, convert, resume on another."""
    return [
        Step(save_for_universal, world=int(axes["saved"])),
        Step(convert, world=1),
        Step(resume_universal, world=int(axes["resumed"])),
    ]


@case("checkpoint/universal", plan=save_convert_resume)
def check_universal(axes: Axes, steps: list[list[Observation]], measured: dict[str, float]) -> None:
    """A universal checkpoint resumes on any number of ranks; without its information stages 1 and 2 do not convert."""
    saved, converted, resumed = steps
    if converted[0]["refused"] is not None:
        pattern = r"AssertionError: Required universal_checkpoint_info state is missing in checkpoint"
        error = checks.every_rank_raised([converted[0]["refused"]], pattern, "the conversion")
        assert axes["info"] == "none", f"the information is there, and yet: {error}"
        raise Unsupported(error)
    checks.world_is(resumed, int(axes["resumed"]))
    checks.ranks_agree(resumed, "digest", "loaded")
    checks.resumed_what_was_saved(saved[0], resumed[0])
    asked = question({**axes, "world": axes["saved"]})
    checks.same_training_but_for_rounding(saved, resumed, asked, measured)


@case("checkpoint/universal_round_robin", plan=save_convert_resume)
def check_universal_round_robin(axes: Axes, steps: list[list[Observation]], measured: dict[str, float]) -> None:
    """The same where gradients, and with them the weights, are dealt out in another order."""
    check_universal(axes, steps, measured)


# --- weights without the rest -------------------------------------------------------------------------------------


def save_weights(setting: Setting) -> Observation:
    """Train, save, and keep the saved weights beside the checkpoint."""
    import numpy as np

    asked = question(setting.parameters)
    session = begin(setting, asked, zero=partition(setting))

    def both() -> None:
        from conformance.integrations import master_weights

        weights: dict[str, Any] = dict(session.weights())
        computing: dict[str, Any] = dict(master_weights.module_weights(session.engine))
        if session.engine.global_rank == 0:
            np.savez(setting.folder / "weights.npz", **weights)
            np.savez(setting.folder / "computing.npz", **computing)
        session.save(checkpoint(setting))

    return saved_run(setting, session, asked, both)


def same_arrays(found: dict[str, Any], file: Path) -> str | None:
    """None if `found` holds the arrays of an .npz file bit by bit, else what differs."""
    import numpy as np

    with np.load(file) as expected:
        if sorted(found) != sorted(expected):
            return f"found the tensors {sorted(found)}, expected {sorted(expected)}"
        for name in expected:
            if not np.array_equal(np.asarray(found[name], np.float32), expected[name]):
                return f"{name} is not the saved one"
    return None


def read_whole_weights(setting: Setting) -> Observation:
    """Put the partitioned float32 weights together, by function or with the script that lies in the checkpoint."""
    import subprocess

    import torch

    if setting["by"] == "function":
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

        tried = attempt(lambda: get_fp32_state_dict_from_zero_checkpoint(str(checkpoint(setting))))
        state = tried.result
    else:
        script, output = checkpoint(setting) / "zero_to_fp32.py", setting.folder / "whole"
        command = [sys.executable, str(script), str(checkpoint(setting)), str(output)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
        if done.returncode:
            return {"refused": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
        tried = attempt(lambda: torch.load(output / "pytorch_model.bin", weights_only=True))
        state = tried.result
    if tried.error is not None:
        return {"refused": tried.error}
    found = {name: tensor.detach().float().numpy() for name, tensor in state.items()}
    dtypes = sorted({str(tensor.dtype) for tensor in state.values()})
    # In float32 the model computes with the same weights, and they are read without DeepSpeed's help.
    file = "computing.npz" if setting["dtype"] == "fp32" else "weights.npz"
    return {"differs": same_arrays(found, setting.folder / file), "dtypes": dtypes}


@case("checkpoint/whole_weights", plan=lambda axes: [Step(save_weights), Step(read_whole_weights, world=1)])
def check_whole_weights(axes: Axes, steps: list[list[Observation]]) -> None:
    """zero_to_fp32 gives the float32 weights that the optimizer had, bit by bit; without ZeRO it says it cannot."""
    found = steps[1][0]
    if axes["stage"] == 0:
        raise Unsupported(checks.every_rank_raised([found.get("refused")], "is not a zero checkpoint", "zero_to_fp32"))
    assert "refused" not in found, f"zero_to_fp32 raised {found['refused']}"
    assert found["differs"] is None, f"zero_to_fp32: {found['differs']}"
    assert found["dtypes"] == ["torch.float32"], f"zero_to_fp32 gave {found['dtypes']}, expected float32"


@case("checkpoint/whole_weights_round_robin", plan=lambda axes: [Step(save_weights), Step(read_whole_weights, world=1)])
def check_whole_weights_round_robin(axes: Axes, steps: list[list[Observation]]) -> None:
    """The same where gradients, and with them the weights, are dealt out in another order."""
    check_whole_weights(axes, steps)


def export_model(setting: Setting) -> Observation:
    """Train, write the model's weights to one file, and read it back."""
    import torch

    from conformance.integrations import master_weights

    asked = question(setting.parameters)
    zero = {"stage3_gather_16bit_weights_on_model_save": setting["gather"]} if setting["stage"] == 3 else {}
    session = begin(setting, asked, zero=zero)
    training.train(session, asked, steps=BEFORE)
    computing = master_weights.module_weights(session.engine)
    folder = setting.folder / "model"
    returned = session.engine.save_16bit_model(str(folder))
    torch.distributed.barrier()
    file = folder / "pytorch_model.bin"
    state = torch.load(file, weights_only=True) if file.exists() else None
    session.stop()
    told: Observation = {"returned": returned, "written": state is not None}
    if state is not None:
        told["dtypes"] = sorted({str(tensor.dtype) for tensor in state.values()})
        told["file"] = training.digest({name: tensor.float().numpy() for name, tensor in state.items()})
    return {**told, "computing": training.digest(computing)}


@case("checkpoint/export_model", export_model)
def check_export_model(axes: Axes, observations: list[Observation]) -> None:
    """save_16bit_model writes what the model computes with; in stage 3 only where gathering is configured."""
    for rank, each in enumerate(observations):
        if axes["stage"] == 3 and not axes["gather"]:
            assert (each["returned"], each["written"]) == (False, False), (
                f"rank {rank}: stage 3 without gathering returned {each['returned']} and "
                f"{'wrote' if each['written'] else 'did not write'} a file, expected False and none"
            )
            continue
        assert each["returned"] is True, f"rank {rank}: save_16bit_model returned {each['returned']!r}"
        assert each["written"], f"rank {rank}: there is no file"
        expected = [checks.DTYPES[str(axes["dtype"])]]
        assert each["dtypes"] == expected, f"rank {rank}: the file holds {each['dtypes']}, expected {expected}"
        assert each["file"] == each["computing"], f"rank {rank}: the file holds other weights than the model"


PARTS: dict[str, dict[str, Any]] = {
    "module_only": {"load_module_only": True},
    "no_optimizer": {"load_optimizer_states": False},
    "module_only_no_optimizer": {"load_module_only": True, "load_optimizer_states": False},
}


def load_part(setting: Setting) -> Observation:
    """Start from other weights, load only a part of the checkpoint, and train on."""
    asked = question(setting.parameters)
    session = begin(setting, asked, fresh=True)

    def load() -> None:
        session.engine.load_checkpoint(str(checkpoint(setting)), **PARTS[setting["part"]])

    return resumed_run(setting, session, asked, load)


def start_from_saved_weights(setting: Setting) -> Observation:
    """What loading a part must come to: a new engine whose model has the saved weights from the beginning."""
    import numpy as np
    import torch

    from conformance import integrations, models

    asked = question(setting.parameters)
    model = models.build(asked.task, asked.seed)
    keeps_masters = setting["part"] == "no_optimizer"
    with np.load(setting.folder / ("weights.npz" if keeps_masters else "computing.npz")) as arrays:
        model.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays})
    made = training.config(asked, stage=setting["stage"])
    loss = models.task(asked.task).loss
    session = integrations.start(setting, integrations.Training(model, made, loss))
    return {"started": training.digest(session.weights()), **finished_run(setting, session, asked)}


@case("checkpoint/load_part", plan=lambda axes: [Step(save_weights), Step(load_part), Step(start_from_saved_weights)])
def check_load_part(axes: Axes, steps: list[list[Observation]]) -> None:
    """Loaded without the optimizer's state, training goes on from the saved weights with a new optimizer."""
    saved, loaded, started = steps
    assert loaded[0]["loaded"] != loaded[0]["fresh"], (
        "loading changed nothing: the weights are still those the second process started from"
    )
    checks.ranks_agree(loaded, "loaded", "digest", "counts_after_load")
    found = loaded[0]["counts_after_load"]["global_steps"]
    wanted = 0 if "module_only" in str(axes["part"]) else BEFORE
    assert found == wanted, f"after loading, global_steps is {found}, expected {wanted}"
    checks.same_training(started, loaded)
    del saved


# --- frozen parameters --------------------------------------------------------------------------------------------


def save_without_frozen(setting: Setting) -> Observation:
    """Save a model that is partly frozen, and leave out what is frozen."""
    asked = question(setting.parameters, "awkward")
    session = begin(setting, asked)

    def leave_out() -> None:
        session.engine.save_checkpoint(str(checkpoint(setting)), exclude_frozen_parameters=True)

    return saved_run(setting, session, asked, leave_out)


def load_without_frozen(setting: Setting) -> Observation:
    """Load it strictly or not, into the same frozen and other trained weights."""
    import torch

    from conformance import integrations, models

    asked = question(setting.parameters, "awkward")
    model, other = models.build(asked.task, asked.seed), models.build(asked.task, asked.seed + 1000)
    with torch.no_grad():
        for parameter, fresh in zip(model.parameters(), other.parameters(), strict=True):
            if parameter.requires_grad:
                parameter.copy_(fresh)
    made = training.config(asked, stage=setting["stage"])
    loss = models.task(asked.task).loss
    session = integrations.start(setting, integrations.Training(model, made, loss))

    def load() -> None:
        session.engine.load_checkpoint(str(checkpoint(setting)), load_module_strict=setting["strict"])

    if setting["strict"]:
        return {"refused": attempt(load).error}
    return resumed_run(setting, session, asked, load)


def without_frozen(axes: Axes) -> list[Step]:
    """Save, load strictly, load otherwise."""
    loads = [Step(load_without_frozen, parameters={"strict": strict}) for strict in (True, False)]
    return [Step(save_without_frozen), *loads]


@case("checkpoint/exclude_frozen", plan=without_frozen)
def check_exclude_frozen(steps: list[list[Observation]]) -> None:
    """What is frozen can be left out: then a strict load is refused, and another resumes with the model's own."""
    saved, strict, resumed = steps
    pattern = r"RuntimeError: Error\(s\) in loading state_dict for Awkward:\s+Missing key\(s\).*frozen"
    checks.every_rank_raised([each["refused"] for each in strict], pattern, "a strict load")
    checks.resumed_what_was_saved(saved[0], resumed[0])
    checks.same_training(saved, resumed)


# --- tags and `latest` --------------------------------------------------------------------------------------------

TAGS: dict[str, Any] = {
    "none": None,
    "integer": 17,
    "non_ascii": "Schritt-drei-第三步",
    "colon": "step:3",
    "slash": "epoch/3",
    "long": "x" * 300,
    "empty": "",
}


def save_with_tag(setting: Setting) -> Observation:
    """Save under the tag."""
    asked = question(setting.parameters)
    session = begin(setting, asked)
    errors: list[str | None] = []

    def tagged() -> None:
        tag = TAGS[setting["tag"]]
        errors.append(attempt(lambda: session.engine.save_checkpoint(str(checkpoint(setting)), tag=tag)).error)

    told = saved_run(setting, session, asked, tagged)
    latest = checkpoint(setting) / "latest"
    text = latest.read_bytes().decode("utf-8", "replace") if latest.exists() else None
    return {"refused": errors[0], "latest": text, **told}


def resume_latest(setting: Setting) -> Observation:
    """Load what `latest` points to, and then by the tag itself."""
    asked = question(setting.parameters)
    if not (checkpoint(setting) / "latest").exists():
        return {"nothing_to_load": True}
    session = begin(setting, asked, fresh=True)
    tag = TAGS[setting["tag"]]
    by_tag: list[str] = []

    def load() -> None:
        session.load(checkpoint(setting))
        if tag is not None:
            path, _ = session.engine.load_checkpoint(str(checkpoint(setting)), tag=str(tag))
            by_tag.append(str(path))

    return {"by_tag": by_tag, **resumed_run(setting, session, asked, load)}


def with_tag(axes: Axes) -> list[Step]:
    # `latest` is written in the encoding of the user's locale; ranks are in that only where a case asks for it.
    told = {"PYTHONUTF8": "0"} if axes["tag"] == "non_ascii" else {}
    return [Step(save_with_tag, environment=told), Step(resume_latest, environment=told)]


@case("checkpoint/tag", plan=with_tag)
def check_tag(axes: Axes, steps: list[list[Observation]]) -> None:
    """A tag that can name a folder is kept in `latest` as it is and found again; another is refused in every rank."""
    saved, resumed = steps
    tag = TAGS[str(axes["tag"])]
    refused = [each["refused"] for each in saved]
    if any(refused):
        raise Unsupported(
            checks.every_rank_raised(
                refused, r"((OSError|ValueError|FileNotFoundError): |RuntimeError: Parent directory).+", "the tag"
            )
        )
    expected = TAG if tag is None else str(tag)
    assert saved[0]["latest"] == expected, f"`latest` holds {saved[0]['latest']!r}, the tag is {expected!r}"
    checks.resumed_rightly(steps, question(axes), stage=int(axes["stage"]), counts=COUNTS)
    assert tag is None or resumed[0]["by_tag"][0] != "None", f"nothing was found under the tag {tag!r}"


def save_with_unlike_tags(setting: Setting) -> Observation:
    """Each rank saves under a tag of its own."""
    asked = question(setting.parameters)
    session = begin(setting, asked, more={"checkpoint": {"tag_validation": setting["validation"]}})
    training.train(session, asked, steps=1)
    tag = f"rank-{session.engine.global_rank}"
    tried = attempt(lambda: session.engine.save_checkpoint(str(checkpoint(setting)), tag=tag))
    session.stop()
    return {"refused": tried.error}


@case("checkpoint/tag_validation", save_with_unlike_tags)
def check_tag_validation(axes: Axes, observations: list[Observation]) -> None:
    """Tags that differ between ranks are refused with Fail; with Warn and Ignore they are not."""
    refused = [each["refused"] for each in observations]
    if axes["validation"] == "Fail":
        checks.every_rank_raised(refused, r"AssertionError: .*tag name 'rank-\d' is not consistent", "the tag")
    else:
        assert not any(refused), f"tag_validation is {axes['validation']}, and yet: {refused}"


def save_two(setting: Setting) -> Observation:
    """Save after each of the first steps under another tag, the last one where the run goes on."""
    asked = question(setting.parameters)
    session = begin(setting, asked)
    for step in range(BEFORE):
        training.train(session, asked, first=step, steps=1)
        saved = training.digest(session.weights())
        session.save(checkpoint(setting), tag=f"step{step + 1}")
    told = finished_run(setting, session, asked)
    if told["rank"] == 0:
        _set_latest(checkpoint(setting), setting["latest"])
    return {"saved": saved, **told}


def _set_latest(folder: Path, kind: str) -> None:
    latest = folder / "latest"
    if kind == "missing":
        latest.unlink()
    elif kind == "stale":
        latest.write_text("step2", encoding="utf-8")
    elif kind == "nowhere":
        latest.write_text("step9", encoding="utf-8")
    elif kind == "empty":
        latest.write_bytes(b"")
    elif kind == "newline":
        latest.write_text("step3\r\n", encoding="utf-8", newline="")


def load_latest(setting: Setting) -> Observation:
    """Load through `latest` as it is, or with a tag that does not exist."""
    asked = question(setting.parameters)
    session = begin(setting, asked, fresh=True)
    fresh = training.digest(session.weights())
    tag = "step9" if setting["latest"] == "explicit" else None
    tried = attempt(lambda: session.engine.load_checkpoint(str(checkpoint(setting)), tag=tag))
    told = {"error": tried.error, "nothing": tried.result == (None, None), "fresh": fresh}
    if tried.error is None:
        told.update(loaded=training.digest(session.weights()), steps_after_load=int(session.engine.global_steps))
    session.stop()
    return told


@case("checkpoint/latest", plan=lambda axes: [Step(save_two), Step(load_latest)])
def check_latest(axes: Axes, steps: list[list[Observation]]) -> None:
    """`latest` decides what is loaded: missing gives nothing, a tag that does not exist an error that names it."""
    saved, loaded = steps
    kind = str(axes["latest"])
    if kind in ("nowhere", "explicit", "empty"):
        named = "latest" if kind == "empty" else "step9"
        checks.every_rank_raised([each["error"] for each in loaded], rf": .*{named}", "a tag that does not exist")
        return
    for rank, each in enumerate(loaded):
        assert each["error"] is None, f"rank {rank}: loading raised {each['error']}"
        if kind == "missing":
            assert each["nothing"], f"rank {rank}: without `latest` something was returned"
            assert each["loaded"] == each["fresh"], f"rank {rank}: without `latest` the weights changed"
        else:
            expected = 2 if kind == "stale" else BEFORE
            assert each["steps_after_load"] == expected, (
                f"rank {rank}: global_steps is {each['steps_after_load']}, `latest` points to step {expected}"
            )
            assert kind == "stale" or each["loaded"] == saved[0]["saved"], f"rank {rank}: other weights than saved"


# --- saving where it cannot work ----------------------------------------------------------------------------------


def save_where_it_cannot(setting: Setting) -> Observation:
    """Try to save into something that is no folder."""
    asked = question(setting.parameters)
    session = begin(setting, asked)
    training.train(session, asked, steps=1)
    place: Any = {
        "none": None,
        "empty": "",
        "file": str(checkpoint(setting)),
        "below_file": str(checkpoint(setting) / "a"),
    }
    if session.engine.global_rank == 0 and "file" in setting["place"]:
        checkpoint(setting).write_text("not a folder", encoding="utf-8")
    tried = attempt(lambda: session.engine.save_checkpoint(place[setting["place"]]))
    return {"refused": tried.error}


@case("checkpoint/save_place", save_where_it_cannot)
def check_save_place(axes: Axes, observations: list[Observation]) -> None:
    """A place where nothing can be saved is refused by rank 0, which makes the folder, with an error that names it; and
    no rank waits for rank 0 after its end."""
    refused = [each["refused"] for each in observations]
    if axes["place"] in ("none", "empty"):
        checks.every_rank_raised(refused, r"ValueError: save_dir must be a non-empty string", "the place")
    else:
        named = rf"(FileExistsError|NotADirectoryError|FileNotFoundError): .*{FOLDER}"
        checks.every_rank_raised(refused[:1], named, "the place")
        checks.every_rank_raised(refused, r"\w+: .+", "the place")


def save_on_full_disk(setting: Setting) -> Observation:
    """Save twice; the second time no file may grow beyond some kilobytes, as if the disk were full."""
    asked = question(setting.parameters)
    session = begin(setting, asked)
    training.train(session, asked, steps=BEFORE)
    saved = training.digest(session.weights())
    session.save(checkpoint(setting), tag="good")
    errors: list[str | None] = []

    def second() -> None:
        training.train(session, asked, first=BEFORE, steps=1)
        with small_files():
            errors.append(attempt(lambda: session.save(checkpoint(setting), tag="bad")).error)

    second()
    return {"saved": saved, "refused": errors[0]}


@contextlib.contextmanager
def small_files() -> Any:
    """No file that is written may grow beyond 4 KiB; POSIX only."""
    import resource
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def resume_after_failed_save(setting: Setting) -> Observation:
    """Load what `latest` points to after a save that failed."""
    asked = question(setting.parameters)
    session = begin(setting, asked, fresh=True)
    fresh = training.digest(session.weights())
    tried = attempt(lambda: session.load(checkpoint(setting)))
    told = {"error": tried.error, "fresh": fresh, "loaded": training.digest(session.weights())}
    session.stop()
    return told


@case("checkpoint/full_disk", plan=lambda axes: [Step(save_on_full_disk), Step(resume_after_failed_save)])
def check_full_disk(steps: list[list[Observation]]) -> None:
    """A save that runs out of space raises in every rank, and the checkpoint before it still loads."""
    saved, resumed = steps
    checks.every_rank_raised([each["refused"] for each in saved], r".+: .+", "a save without space")
    for rank, each in enumerate(resumed):
        assert each["error"] is None, f"rank {rank}: after a failed save, loading raised {each['error']}"
    checks.resumed_what_was_saved(saved[0], resumed[0])


class Killed(BaseException):
    """Stands for the process's end: nothing in DeepSpeed catches it."""


def save_and_die(setting: Setting) -> Observation:
    """Save, train, and leave a second save unfinished just as a killed process would."""
    asked = question(setting.parameters)
    session = begin(setting, asked)
    training.train(session, asked, steps=BEFORE)
    saved = training.digest(session.weights())
    session.save(checkpoint(setting), tag="good")
    training.train(session, asked, first=BEFORE, steps=1)
    # Where only rank 0 writes, the others are told by the broken connection that it is gone.
    with contextlib.suppress(Killed, RuntimeError), _dying_at(setting["at"]):
        session.save(checkpoint(setting), tag="bad")
    return {"saved": saved}


@contextlib.contextmanager
def _dying_at(where: str) -> Any:
    """Writing ends half-way: in the first file of tensors, or between opening and writing `latest`."""
    import builtins

    import torch

    save_tensors, open_file = torch.save, builtins.open

    def half(state: Any, path: Any, *more: Any, **options: Any) -> None:
        save_tensors(state, path, *more, **options)
        os.truncate(path, Path(path).stat().st_size // 2)
        raise Killed

    def opened(path: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        file = open_file(path, mode, *more, **options)
        if Path(str(path)).name == "latest" and "w" in mode:
            file.close()
            raise Killed
        return file

    try:
        if where == "tensors":
            torch.save = half  # type: ignore[assignment]
        else:
            builtins.open = opened  # type: ignore[assignment]
        yield
    finally:
        torch.save = save_tensors
        builtins.open = open_file


@case("checkpoint/killed_save", plan=lambda axes: [Step(save_and_die), Step(resume_after_failed_save)])
def check_killed_save(steps: list[list[Observation]]) -> None:
    """After a process was killed while it saved, the checkpoint before it still loads."""
    saved, resumed = steps
    for rank, each in enumerate(resumed):
        assert each["error"] is None, f"rank {rank}: after a killed save, loading raised {each['error']}"
    checks.resumed_what_was_saved(saved[0], resumed[0])


# --- damaged checkpoints ------------------------------------------------------------------------------------------


def save_and_damage(setting: Setting) -> Observation:
    """Save, and damage one file of the checkpoint."""
    asked = question(setting.parameters)
    session = begin(setting, asked)
    training.train(session, asked, steps=BEFORE)
    session.save(checkpoint(setting))
    told = {
        "rank": session.engine.global_rank,
        "files": sorted(path.name for path in (checkpoint(setting) / TAG).iterdir()),
    }
    session.stop()
    if told["rank"] == 0:
        kind = "optim_states" if setting["file"] == "optimizer" else "model_states"
        _damage(
            [path for path in sorted((checkpoint(setting) / TAG).iterdir()) if kind in path.name][-1], setting["how"]
        )
    return told


def _damage(file: Path, how: str) -> None:
    import torch

    if how == "missing":
        file.unlink()
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "truncated":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif how == "garbled":
        file.write_bytes(bytes(255 - byte for byte in file.read_bytes()))
    elif how == "foreign":
        torch.save({"something": torch.zeros(3)}, file)


def load_damaged(setting: Setting) -> Observation:
    """Try to load it."""
    asked = question(setting.parameters)
    session = begin(setting, asked, fresh=True)
    return {"error": attempt(lambda: session.engine.load_checkpoint(str(checkpoint(setting)))).error}


@case("checkpoint/damaged", plan=lambda axes: [Step(save_and_damage), Step(load_damaged)])
def check_damaged(steps: list[list[Observation]]) -> None:
    """A checkpoint with a damaged file is refused by the rank that reads it: no training goes on from it."""
    errors = [each["error"] for each in steps[1]]
    assert any(errors), "a damaged checkpoint was loaded without an error in any rank"


# --- places -------------------------------------------------------------------------------------------------------

PLACES = {
    "spaces": Path("with some", "spaces "),
    "non_ascii": Path("Prüfstände", "チェックポイント"),
    "long": Path(*("x" * 60 for _ in range(5))),
}


def save_in_place(setting: Setting) -> Observation:
    """Save into a folder with an uncommon name."""
    asked = question(setting.parameters)
    session = begin(setting, asked)
    return saved_run(setting, session, asked, lambda: session.save(setting.folder / PLACES[setting["place"]]))


def resume_in_place(setting: Setting) -> Observation:
    """Resume from there."""
    asked = question(setting.parameters)
    session = begin(setting, asked, fresh=True)
    return resumed_run(setting, session, asked, lambda: session.load(setting.folder / PLACES[setting["place"]]))


@case("checkpoint/place", plan=lambda axes: [Step(save_in_place), Step(resume_in_place)])
def check_place(axes: Axes, steps: list[list[Observation]]) -> None:
    """A folder may have spaces and other letters in its name, and be more than 260 characters long."""
    checks.resumed_rightly(steps, question(axes), stage=int(axes["stage"]), counts=COUNTS)


# --- saving again, saving early -----------------------------------------------------------------------------------


def save_twice(setting: Setting) -> Observation:
    """Save twice under one tag, with training in between."""
    asked = question(setting.parameters)
    session = begin(setting, asked)
    training.train(session, asked, steps=BEFORE - 1)
    session.save(checkpoint(setting), tag="same")
    training.train(session, asked, first=BEFORE - 1, steps=1)
    saved = training.digest(session.weights())
    session.save(checkpoint(setting), tag="same")
    return {"saved": saved, **finished_run(setting, session, asked)}


@case("checkpoint/overwrite", plan=lambda axes: [Step(save_twice), Step(resume)])
def check_overwrite(axes: Axes, steps: list[list[Observation]]) -> None:
    """The second save under a tag takes the place of the first."""
    checks.resumed_rightly(steps, question(axes), stage=int(axes["stage"]), counts=COUNTS)


def save_between_micro_batches(setting: Setting) -> Observation:
    """Save after the first of two micro-batches of a step, and train on."""
    import torch.distributed

    from conformance import models

    asked = question({**setting.parameters, "accumulation": 2})
    session = begin(setting, asked)
    training.train(session, asked, steps=BEFORE)
    saved = training.digest(session.weights())
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    batches = [
        models.micro_batch(asked.task, BEFORE, micro=micro, accumulation=2, rank=rank, world=world) for micro in (0, 1)
    ]
    first = session.train_step(batches[:1])
    if setting["saves"]:
        session.save(checkpoint(setting))
    second = session.train_step(batches[1:])
    progress = training.train(session, asked, first=BEFORE + 1, steps=AFTER - 1)
    progress.losses.insert(0, (first + second) / 2)
    told = training.report(session, progress)
    session.stop()
    return {"saved": saved, "asked_transport": setting.transport, **told}


def resume_from_between(setting: Setting) -> Observation:
    """Load it and train from the beginning of the step that was interrupted."""
    asked = question({**setting.parameters, "accumulation": 2})
    session = begin(setting, asked, fresh=True)
    return resumed_run(setting, session, asked, lambda: session.load(checkpoint(setting)))


def interrupted_step(axes: Axes) -> list[Step]:
    """The run that saves amid a step, the run that does not, and the resume."""
    return [
        Step(save_between_micro_batches, parameters={"saves": True}),
        Step(save_between_micro_batches, parameters={"saves": False}),
        Step(resume_from_between),
    ]


@case("checkpoint/save_amid_accumulation", plan=interrupted_step)
def check_save_amid_accumulation(axes: Axes, steps: list[list[Observation]]) -> None:
    """A save between micro-batches disturbs nothing, and a resume from it begins the step anew."""
    saving, plain, resumed = steps
    checks.same_training(plain, saving)
    checks.resumed_what_was_saved(plain[0], resumed[0])
    checks.same_training(plain, resumed)


# --- schedulers and loss scale ------------------------------------------------------------------------------------

SCHEDULERS: dict[str, dict[str, Any]] = {
    "WarmupLR": {"warmup_min_lr": 1e-3, "warmup_max_lr": 1e-2, "warmup_num_steps": 5, "warmup_type": "linear"},
    "WarmupDecayLR": {"total_num_steps": 8, "warmup_max_lr": 1e-2, "warmup_num_steps": 2, "warmup_type": "linear"},
    "WarmupCosineLR": {"total_num_steps": 8, "warmup_num_steps": 2, "warmup_type": "linear"},
    "OneCycle": {"cycle_min_lr": 1e-3, "cycle_max_lr": 1e-2, "cycle_first_step_size": 2, "decay_lr_rate": 0.1},
    "LRRangeTest": {"lr_range_test_min_lr": 1e-3, "lr_range_test_step_size": 2, "lr_range_test_step_rate": 0.5},
}


def _scheduled(setting: Setting) -> dict[str, Any]:
    """The arguments of `begin` that give the cell its scheduler: by config, or a callable that makes one of torch's."""
    import torch

    name = setting["scheduler"]
    if name == "LambdaLR":
        return {"scheduler": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)}
    return {"more": {"scheduler": {"type": name, "params": SCHEDULERS[name]}}}


def save_scheduled(setting: Setting) -> Observation:
    """Train with a learning rate schedule, save, and train on."""
    asked = question(setting.parameters)
    session = begin(setting, asked, **_scheduled(setting))
    rates: list[float] = []

    def note() -> None:
        rates.extend(session.engine.get_lr())
        session.save(checkpoint(setting))

    return {"rates": rates, **saved_run(setting, session, asked, note)}


def resume_scheduled(setting: Setting) -> Observation:
    """Resume with the same schedule."""
    asked = question(setting.parameters)
    session = begin(setting, asked, fresh=True, **_scheduled(setting))
    rates: list[float] = []

    def note() -> None:
        rates.extend(session.engine.get_lr())
        session.load(checkpoint(setting))
        rates.extend(session.engine.get_lr())

    return {"rates": rates, **resumed_run(setting, session, asked, note)}


@case("checkpoint/resume_schedule", plan=lambda axes: [Step(save_scheduled), Step(resume_scheduled)])
def check_resume_schedule(axes: Axes, steps: list[list[Observation]]) -> None:
    """The learning rate goes on where it was, and so does training, bit by bit."""
    saved, resumed = steps
    fresh, loaded = resumed[0]["rates"][0], resumed[0]["rates"][-1]
    at_save = saved[0]["rates"][0]
    assert fresh != at_save, "the schedule had not moved before the save, so that resuming proves nothing"
    assert loaded == at_save, f"after loading, the learning rate is {loaded}, at the save it was {at_save}"
    checks.resumed_rightly(steps, question(axes), stage=int(axes["stage"]), counts=COUNTS)


def resume_but_for_the_schedule(setting: Setting) -> Observation:
    """Resume with the schedule at its beginning."""
    asked = question(setting.parameters)
    session = begin(setting, asked, fresh=True, **_scheduled(setting))
    at: list[int] = []

    def load() -> None:
        at.append(int(session.engine.lr_scheduler.state_dict()["last_batch_iteration"]))
        session.engine.load_checkpoint(str(checkpoint(setting)), load_lr_scheduler_states=False)
        at.append(int(session.engine.lr_scheduler.state_dict()["last_batch_iteration"]))

    return {"at": at, **resumed_run(setting, session, asked, load)}


@case("checkpoint/resume_without_schedule", plan=lambda axes: [Step(save_scheduled), Step(resume_but_for_the_schedule)])
def check_resume_without_schedule(steps: list[list[Observation]]) -> None:
    """Weights, optimizer and counts are the saved ones, the schedule is not."""
    saved, resumed = steps
    checks.ranks_agree(resumed, "loaded", "at", "counts_after_load")
    checks.resumed_what_was_saved(saved[0], resumed[0])
    found = resumed[0]["counts_after_load"]
    assert found == COUNTS, f"after loading, the engine counts {found}, saved were {COUNTS}"
    fresh, loaded = resumed[0]["at"]
    assert loaded == fresh, f"the schedule was loaded nevertheless: it was at step {fresh} and is at {loaded}"
    assert saved[0]["losses"] != resumed[0]["losses"], (
        "the schedule changes nothing, so that leaving it out shows nothing"
    )


# --- parameter groups ---------------------------------------------------------------------------------------------


def begin_grouped(setting: Setting, *, fresh: bool = False, more: dict[str, Any] | None = None) -> Any:
    """Start with two parameter groups, one of them with its own learning rate and weight decay."""
    from conformance import integrations, models
    from conformance.oracle.trajectory import groups

    asked = question(setting.parameters)
    seed = training.reseeded(asked).seed if fresh else asked.seed
    model = models.build(asked.task, seed)
    given = groups(dict(model.named_parameters()), dict(asked.optimizer.options))
    made = {**training.config(asked, stage=setting["stage"]), **(more or {})}
    loss = models.task(asked.task).loss
    return integrations.start(setting, integrations.Training(model, made, loss, parameters=given))


def group_options(session: Any) -> list[list[float]]:
    """Learning rate and weight decay of each group."""
    return [[float(each["lr"]), float(each["weight_decay"])] for each in session.engine.optimizer.param_groups]


def save_grouped(setting: Setting) -> Observation:
    """Train with two groups, save, and train on."""
    asked = question(setting.parameters)
    session = begin_grouped(setting)
    options = group_options(session)
    return {"options": options, **saved_run(setting, session, asked, lambda: session.save(checkpoint(setting)))}


def resume_grouped(setting: Setting) -> Observation:
    """Resume with two groups, from the universal checkpoint if the cell is about one."""
    asked = question(setting.parameters)
    universal = "info" in setting.parameters
    if universal and not (checkpoint(setting) / "latest_universal").exists():
        return {"nothing_to_load": True}
    session = begin_grouped(setting, fresh=True, more={"checkpoint": {"load_universal": True}} if universal else None)
    options: list[list[float]] = []

    def load() -> None:
        session.load(checkpoint(setting))
        options.extend(group_options(session))

    told = resumed_run(setting, session, asked, load)
    return {"options": options, "universal": universal, **told}


def resumed_groups(steps: list[list[Observation]]) -> tuple[list[Observation], list[Observation]]:
    """What every resume with groups must be; the saved and the resumed run."""
    saved, resumed = steps[0], steps[-1]
    checks.ranks_agree(resumed, "loaded", "digest", "options")
    checks.resumed_what_was_saved(saved[0], resumed[0])
    options = saved[0]["options"]
    assert len(options) == 2 and options[0] != options[1], f"there are not two different groups: {options}"
    assert resumed[0]["options"] == options, (
        f"the groups have the options {resumed[0]['options']}, saved were {options}"
    )
    return saved, resumed


@case("checkpoint/resume_groups", plan=lambda axes: [Step(save_grouped), Step(resume_grouped)])
def check_resume_groups(steps: list[list[Observation]]) -> None:
    """The groups keep their options, and training goes on bit by bit."""
    checks.same_training(*resumed_groups(steps))


@case(
    "checkpoint/universal_groups",
    plan=lambda axes: [
        Step(save_grouped, world=int(axes["saved"])),
        Step(convert, world=1),
        Step(resume_grouped, world=int(axes["resumed"])),
    ],
)
def check_universal_groups(axes: Axes, steps: list[list[Observation]], measured: dict[str, float]) -> None:
    """The same through a universal checkpoint, on any number of ranks."""
    refused = steps[1][0]["refused"]
    assert refused is None, f"the conversion raised {refused}"
    saved, resumed = resumed_groups(steps)
    checks.world_is(resumed, int(axes["resumed"]))
    assert all(each["universal"] for each in resumed), "the universal checkpoint was not what was loaded"
    asked = dataclasses.replace(question({**axes, "world": axes["saved"]}), grouped=True)
    checks.same_training_but_for_rounding(saved, resumed, asked, measured)


OVERFLOWING = {"fp16": {"enabled": True, "initial_scale_power": 24, "loss_scale_window": 2, "hysteresis": 1}}


def save_scaled(setting: Setting) -> Observation:
    """Train in fp16 with a dynamic loss scale that begins too high, save, and train on."""
    asked = question(setting.parameters)
    tried = attempt(lambda: begin(setting, asked, more=OVERFLOWING))
    if tried.error is not None:
        return {"supports_dtype": training.supports("fp16"), "refused": tried.error}
    session = tried.result
    scales: list[float] = []

    def note() -> None:
        scales.extend([float(session.engine.loss_scale()), float(session.engine.optimizer.cur_scale)])
        session.save(checkpoint(setting))

    told = saved_run(setting, session, asked, note)
    return {"supports_dtype": training.supports("fp16"), "scales": scales, **told}


def resume_scaled(setting: Setting) -> Observation:
    """Resume with the same config."""
    asked = question(setting.parameters)
    if not checkpoint(setting).exists():
        return {"nothing_to_load": True}
    session = begin(setting, asked, fresh=True, more=OVERFLOWING)
    scales: list[float] = [float(session.engine.optimizer.cur_scale)]

    def note() -> None:
        session.load(checkpoint(setting))
        scales.append(float(session.engine.optimizer.cur_scale))

    return {"scales": scales, **resumed_run(setting, session, asked, note)}


@case("checkpoint/resume_loss_scale", plan=lambda axes: [Step(save_scaled), Step(resume_scaled)])
def check_resume_loss_scale(steps: list[list[Observation]]) -> None:
    """Loss scale and the count of skipped steps come back, and training goes on bit by bit."""
    saved, resumed = steps
    checks.refusal(saved, "fp16")
    fresh, loaded = resumed[0]["scales"]
    at_save = saved[0]["scales"][-1]
    assert fresh != at_save, "the loss scale had not moved before the save, so that resuming proves nothing"
    assert loaded == at_save, f"after loading, the loss scale is {loaded}, at the save it was {at_save}"
    skipped = resumed[0]["counts_after_load"]["skipped_steps"]
    assert skipped == BEFORE, f"after loading, skipped_steps is {skipped}, {BEFORE} had been skipped"
    checks.resumed_what_was_saved(saved[0], resumed[0])
    checks.same_training(saved, resumed)


# --- other models, and what a checkpoint's files are ---------------------------------------------------------------


def save_model(setting: Setting) -> Observation:
    """Train one of the other models, save, and train on."""
    asked = question(setting.parameters)
    session = begin(setting, asked)
    return {
        "buffers": _buffers(session),
        **saved_run(setting, session, asked, lambda: session.save(checkpoint(setting))),
    }


def resume_model(setting: Setting) -> Observation:
    """Resume it."""
    asked = question(setting.parameters)
    session = begin(setting, asked, fresh=True)
    buffers: list[str] = []

    def load() -> None:
        session.load(checkpoint(setting))
        buffers.append(_buffers(session))

    return {"buffers": buffers, **resumed_run(setting, session, asked, load)}


def _buffers(session: Any) -> str:
    return training.digest({name: buffer.float().numpy() for name, buffer in session.engine.module.named_buffers()})


@case("checkpoint/resume_model", plan=lambda axes: [Step(save_model), Step(resume_model)])
def check_resume_model(steps: list[list[Observation]]) -> None:
    """Frozen, tied, unused and empty parameters, buffers and embeddings resume as a plain model's weights do."""
    saved, resumed = steps
    checks.ranks_agree(resumed, "loaded", "digest")
    checks.resumed_what_was_saved(saved[0], resumed[0])
    checks.same_training(saved, resumed)


def load_safely(setting: Setting) -> Observation:
    """Read every file of the checkpoint with torch.load(weights_only=True); ZeRO's files hold three of DeepSpeed's
    classes."""
    import torch
    from deepspeed.runtime.fp16.loss_scaler import LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    torch.serialization.add_safe_globals([LossScaler, ZeroStageEnum, fragment_address])
    refused = {}
    for file in sorted((checkpoint(setting) / TAG).glob("*.pt")):
        tried = attempt(lambda file=file: torch.load(file, weights_only=True))  # type: ignore[misc]
        if tried.error is not None:
            refused[file.name] = tried.error.splitlines()[0][:300]
    return {"refused": refused}


@case("checkpoint/safe_to_load", plan=lambda axes: [Step(save), Step(load_safely, world=1)])
def check_safe_to_load(steps: list[list[Observation]]) -> None:
    """A checkpoint's files can be read without running code from them, once DeepSpeed's own classes are allowed."""
    refused = steps[1][0]["refused"]
    assert not refused, "torch.load(weights_only=True) refuses " + "; ".join(
        f"{name}: {error}" for name, error in refused.items()
    )


def load_around_compile(setting: Setting) -> Observation:
    """Save the weights of one engine and load them into another, with torch.compile around the model as asked."""
    import torch

    config = observing.tiny_config(zero_optimization={"stage": setting["stage"]})

    def engine(side: str, seed: int) -> Any:
        model: Any = observing.tiny_model(seed)
        if setting["wrapped"] in (side, "both"):
            model = torch.compile(model, backend="eager")
        return observing.starter(setting)(model=model, config=config)[0]

    folder = str(checkpoint(setting))
    saving, loading = engine("saved", 0), engine("loading", 1)
    saving.save_checkpoint(folder)
    torch.distributed.barrier()  # rank 0 writes the file
    saved, before = observing.flat_weights(saving.module), observing.flat_weights(loading.module)
    tried = observing.attempt(lambda: loading.load_checkpoint(folder, load_module_strict=setting["strict"])[0])
    return {"load": tried, "saved": saved, "before": before, "after": observing.flat_weights(loading.module)}


@case("checkpoint/compiled_model", load_around_compile)
def check_compiled_model(axes: Axes, observations: list[Observation]) -> None:
    """The same names load; other names are refused, and change nothing."""
    for rank, seen in enumerate(observations):
        assert not np.array_equal(seen["saved"], seen["before"]), (
            f"rank {rank}: both models begin with the same weights"
        )
        expected = seen["saved"] if axes["wrapped"] == "both" else seen["before"]
        assert np.array_equal(seen["after"], expected), f"rank {rank}: the load left other weights than expected"
    if axes["wrapped"] == "both":
        for rank, seen in enumerate(observations):
            assert seen["load"].get("returned"), f"rank {rank}: {seen['load']}, expected the path that was loaded"
        return
    remedy = "wrap the model" if axes["wrapped"] == "saved" else "do not wrap the model"
    says = re.compile(f"torch.compile wrapped the model on one side only; .* Remedy: {remedy} ")
    for rank, seen in enumerate(observations):
        assert_raised(seen["load"], "conformance.reference.errors.CheckpointError", says, f"rank {rank}")
