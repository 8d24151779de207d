"""The cells of suite offload in short."""

from __future__ import annotations

import dataclasses
from typing import Any

from conformance.model.setting import Axes
from conformance.repro.forms import Call, Repro, Resume, Short
from conformance.repro.snippets import refused
from conformance.repro.suites import checkpoint, zero
from conformance.repro.suites.initialize import call
from conformance.repro.suites.zero import short_config
from conformance.suites.offload import OPTIONS, asked, task

WIDE_LAYERS = "torch.nn.Linear(17, 1151), torch.nn.Linear(1151, 1151), torch.nn.Linear(1151, 5)"
"""A model so large that its state goes to disk."""


def sections(axes: Axes) -> dict[str, Any]:
    """What zero_optimization says of offload."""
    made: dict[str, Any] = {}
    for axis, section in (("optimizer", "offload_optimizer"), ("parameters", "offload_param")):
        device = axes.get(axis, "none")
        if device == "none":
            continue
        made[section] = {"device": device}
        if device == "nvme":
            made[section]["nvme_path"] = "swap"
        if (device, axis) == ("nvme", "parameters"):
            made[section] |= {"buffer_size": 1_400_000, "max_in_cpu": 0}
    made.get("offload_optimizer", {}).update(OPTIONS.get(str(axes.get("option", "")), {}))
    return made


def train(axes: Axes, **changes: Any) -> Repro | None:
    """The same training as without offload."""
    if axes.get("adam", "torch") != "torch":
        return None
    question = asked(axes)
    config = short_config(question, stage=int(axes["stage"]), zero=sections(axes))
    nvme = "nvme" in (axes.get("optimizer"), axes.get("parameters"))
    return zero.training_of(axes, question, config, uses_folder=nvme, **changes)


def without_effect(axes: Axes) -> Repro | None:
    """An offload that the stage does not have: refused, or in use."""
    on_disk = axes["optimizer"] == "nvme"
    in_use = {
        "optimizer": f'getattr(engine.optimizer, "{"swap_optimizer" if on_disk else "cpu_offload"}", False)',
        "parameters": 'getattr(engine.optimizer, "offload_param", False)',
    }
    axis = "optimizer" if axes["optimizer"] != "none" else "parameters"
    section = {"optimizer": "offload_optimizer", "parameters": "offload_param"}[axis]
    config = short_config(asked(axes), stage=int(axes["stage"]), zero=sections(axes))
    config["optimizer"] = {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}}
    body = f"""
        engine, *_ = deepspeed.initialize(model=torch.nn.Linear(4, 2), config=CONFIG)
        in_use = {in_use[axis]}
        assert in_use, f"rank {{rank}}: {section} was accepted and is not in use"
    """
    return Call(config=config, ranks=int(axes["world"]), body=body, uses_folder="nvme" in axes.values())


def resume(axes: Axes) -> Resume:
    """A run with offload resumes as one without."""
    config = checkpoint.config(axes, zero=sections(axes))
    more = {"layers": WIDE_LAYERS} if task(axes) == "wide" else {}
    return checkpoint.resume(axes, config=config, **more)


def resume_in_second_engine(axes: Axes) -> Repro | None:
    """A resume in a process that has had an engine before, as in each Trainer.fit of Lightning after the first."""
    if axes["optimizer"] != "nvme":
        return None
    load = """
        engine.destroy()
        engine = begin(rank, seed=1)  # as a second Trainer.fit
        engine.load_checkpoint("saved")
        saved = torch.load("saved0.pt")
        off = ((weights(engine.module) - saved).norm() / saved.norm()).item()
        assert off < 0.1, f"loading changed nothing: weights are off the saved ones by {off:.2g}"
    """
    save = 'torch.save(weights(engine.module), f"saved{rank}.pt")\nengine.save_checkpoint("saved")'
    return dataclasses.replace(resume(axes), save=save, load=load)


def save_twice(axes: Axes) -> Repro | None:
    """Two saves under one tag, as the Trainer does where it cannot gather the weights."""
    if axes["optimizer"] != "nvme":
        return None
    save = """
        for _ in range(2):
            try:
                engine.save_checkpoint("saved", tag="same")
            except Exception as error:
                raise AssertionError(f"rank {rank} raised {type(error).__name__}: {error}")
    """
    return dataclasses.replace(
        resume(axes), save=save, load="", expected="A second save under a tag writes over the first."
    )


def swap_place(axes: Axes) -> Repro | None:
    """A swap folder that is not given is refused, by its name."""
    if axes["place"] != "none":
        return None
    config = short_config(asked(axes), stage=int(axes["stage"]), zero=sections(axes))
    for section in config["zero_optimization"].values():
        if isinstance(section, dict):
            section.pop("nvme_path", None)
    config["optimizer"] = {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}}
    code = refused(
        "deepspeed.initialize(model=torch.nn.Linear(4, 2), config=CONFIG)",
        '"nvme_path" in text',
        "an error that names nvme_path",
    )
    return call(axes, code, config=config)


SHORT: dict[str, dict[str, Short]] = {
    "deepspeed": {
        "train": train,
        "option": train,
        "without_effect": without_effect,
        "resume": resume,
        "swap_place": swap_place,
    },
    "lightning": {"resume": resume_in_second_engine},
    "transformers": {"resume": save_twice},
}
"""By the names of integrations and cases."""
