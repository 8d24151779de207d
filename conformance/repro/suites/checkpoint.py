"""The cells of suite checkpoint in short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.model.setting import Axes
from conformance.repro.forms import Repro, Resume, Short
from conformance.repro.snippets import lines, refused
from conformance.repro.tasks import ROWS
from conformance.suites.checkpoint import PARTS
from conformance.suites.common.resuming import AFTER, BEFORE
from conformance.suites.common.training import PERSISTENCE

FIRST, REST = f"range({BEFORE})", f"range({BEFORE}, {BEFORE + AFTER})"
ROUNDING = 1e-3
"""How far from the uninterrupted run, relative to its way, a run on another number of ranks may be."""


def config(axes: Axes, *, stage: int | None = None, zero: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The suite's config in short."""
    section: dict[str, Any] = {"stage": int(axes["stage"]) if stage is None else stage}
    if section["stage"] == 3:
        section["stage3_param_persistence_threshold"] = PERSISTENCE
    made: dict[str, Any] = {
        "train_batch_size": ROWS,
        "zero_optimization": {**section, **(zero or {})},
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1, "torch_adam": True}},
    }
    if axes.get("dtype") == "bf16":
        made["bf16"] = {"enabled": True}
    return made


SAVE = 'engine.save_checkpoint("saved")'
LOAD = 'engine.load_checkpoint("saved")'
EXACT, CLOSE = 0.0, 1e-4
"""How far the resumed run may be, relative to the weights: in the same number of ranks, and in
another, where sums are taken in another order."""


def keep(save: str = SAVE) -> str:
    """Save, train on, and keep what the resume must come to."""
    return lines(save, f"train(engine, {REST})", 'torch.save(weights(engine.module), f"finished{rank}.pt")')


def go_on(load: str = LOAD, *, tolerance: float = EXACT) -> str:
    """Load, train on, and judge."""
    return lines(
        load,
        f"""
        train(engine, {REST})
        finished = torch.load("finished0.pt")
        off = ((weights(engine.module) - finished).norm() / finished.norm()).item()
        assert off <= {tolerance}, f"after the resume not the training without interruption: weights off by {{off:.2g}}"
        """,
    )


def resume(axes: Axes, **changes: Any) -> Resume:
    """A resume that must be the uninterrupted run."""
    given: dict[str, Any] = {
        "config": config(axes),
        "saved": int(axes.get("saved", axes.get("world", 2))),
        "resumed": int(axes.get("resumed", axes.get("world", 2))),
    }
    given |= {"save": keep(), "load": go_on(tolerance=EXACT if given["saved"] == given["resumed"] else CLOSE)}
    return Resume(**{**given, **changes})


def resize(axes: Axes) -> Repro | None:
    """Stage 0 resumes on any number of ranks; the others refuse another, and name both."""
    if axes["stage"] == 0 or axes["saved"] == axes["resumed"]:
        return resume(axes)
    says = f'{{"{axes["saved"]}", "{axes["resumed"]}"}} <= set(text)'
    wanted = "an error that names both numbers of ranks"
    return resume(axes, save=SAVE, load=refused(LOAD, says, wanted))


def change_stage(axes: Axes) -> Repro | None:
    """Resumes rightly, or is refused with an error that is about that."""
    stage = int(axes["to_stage"])
    load = f"""
        try:
            {LOAD}
        except Exception as error:
            text = f"{{type(error).__name__}}: {{error}}"
            amid = text.startswith(("AttributeError", "TypeError", "KeyError")) or not str(error)
            assert not amid, f"rank {{rank}} raised {{text!r}}, which says nothing of another stage"
            return
    """
    other = f'{{**CONFIG, "zero_optimization": {{"stage": {stage}}}}}'
    return resume(axes, load=go_on(load, tolerance=CLOSE), load_config=other, other_stage=stage)


def whole_weights(axes: Axes) -> Repro | None:
    """zero_to_fp32 gives the float32 weights; without ZeRO it says that it cannot."""
    call = 'get_fp32_state_dict_from_zero_checkpoint("saved")'
    if axes["stage"] == 0:
        between = refused(call, '"is not a zero checkpoint" in text', "that it is not a zero checkpoint")
        return resume(axes, save=SAVE, between=between, load="", expected=NOT_ZERO)
    read = "deepspeed.utils.safe_get_full_fp32_param(each).flatten().cpu()"
    save = f"""
        parameters = engine.module.parameters()
        saved = torch.cat([{read} for each in parameters])
        if rank == 0:
            torch.save(saved, "weights.pt")
        {SAVE}
    """
    between = f"""
        found = torch.cat([each.flatten() for each in {call}.values()])
        wrong = int((found != torch.load("weights.pt")).sum())
        assert not wrong, f"{{wrong}} of {{found.numel()}} weights are not those that the optimizer had"
    """
    zero = {"round_robin_gradients": True} if axes.get("partition") == "round_robin" else {}
    return resume(axes, config=config(axes, zero=zero), save=save, between=between, load="")


NOT_ZERO = "Without ZeRO there is nothing to put together, and the error says that it is not a zero checkpoint."


def load_part(axes: Axes) -> Repro | None:
    """Loaded without the optimizer's state, training goes on from the saved weights with a new optimizer."""
    part = ", ".join(f"{name}={value}" for name, value in PARTS[str(axes["part"])].items())
    save = f"""
        {SAVE}
        engine = begin(rank, seed=0, given=weights(engine.module))
        train(engine, {REST})
        torch.save(weights(engine.module), f"finished{{rank}}.pt")
    """
    # The float32 copy holds more than the weights that a new engine is given here.
    tolerance = 1e-2 if axes["dtype"] == "bf16" and axes["part"] == "no_optimizer" else EXACT
    load = f"""
        fresh = weights(engine.module)
        engine.load_checkpoint("saved", {part})
        assert not torch.equal(weights(engine.module), fresh), "loading changed nothing"
    """
    return resume(axes, save=save, load=go_on(load, tolerance=tolerance), expected=PART)


PART = "It goes on from the saved weights as an engine that is made around them does, which is computed here too."


def latest(axes: Axes) -> Repro | None:
    """What `latest` says is what is loaded, and what is not there is named."""
    kind = str(axes["latest"])
    if kind not in ("nowhere", "empty", "explicit"):
        return None
    tag = ', tag="step9"' if kind == "explicit" else ""
    wrong = {"nowhere": "step9", "empty": ""}.get(kind)
    write = "" if wrong is None else f'if rank == 0:\n    pathlib.Path("saved", "latest").write_text("{wrong}")'
    named = "latest" if kind == "empty" else "step9"
    load = refused(f'engine.load_checkpoint("saved"{tag})', f'"{named}" in text', f"an error that names {named}")
    expected = "A tag that does not exist is refused with an error that says so."
    return resume(axes, save=lines(SAVE, write), load=load, expected=expected)


def killed_save(axes: Axes) -> Repro | None:
    """A save that ends between opening and writing `latest`."""
    if axes["at"] != "latest":
        return None
    save = """
        engine.save_checkpoint("saved", tag="good")

        def killed(path, *more, original=open, **options):  # as if the process ended once `latest` is open
            file = original(path, *more, **options)
            if str(path).endswith("latest"):
                file.close()
                raise SystemExit
            return file

        builtins.open = killed
        engine.save_checkpoint("saved", tag="bad")
    """
    load = """
        try:
            path, _ = engine.load_checkpoint("saved")
        except Exception as error:
            raise AssertionError(f"after a killed save, loading raised {type(error).__name__}: {error}")
        assert path, "after a killed save, nothing was loaded"
    """
    return resume(axes, save=save, load=load, saved=1, resumed=1)


CONVERT = """
    folders = ["--input_folder", "saved/global_step3", "--output_folder", "saved/universal"]
    sys.argv[1:] = [*folders, "--num_extract_workers=1", "--num_merge_workers=1", "--inject_missing_state"]
    ds_to_universal.main(ds_to_universal.parse_arguments())
"""
UNIVERSAL = '{**CONFIG, "checkpoint": {"load_universal": True}}'


def universal(axes: Axes) -> Repro | None:
    """A universal checkpoint resumes on any number of ranks."""
    if axes["info"] == "none":
        return None
    zero = {"round_robin_gradients": True} if axes.get("partition") == "round_robin" else {}
    made, load = config(axes, zero=zero), go_on(tolerance=CLOSE)
    expected = "A universal checkpoint resumes on any number of ranks."
    return resume(axes, config=made, between=CONVERT, load_config=UNIVERSAL, load=load, expected=expected)


BEGIN_GROUPED = """
    biases = [each for each in model.parameters() if each.dim() == 1]
    groups = [{"params": [each for each in model.parameters() if each.dim() == 2]}]
    groups.append({"params": biases, "lr": 0.005, "weight_decay": 0.0})
    engine, *_ = deepspeed.initialize(model=model, model_parameters=groups, config=config)
"""


def grouped(axes: Axes, **changes: Any) -> Repro | None:
    """Two parameter groups keep their options."""
    return resume(axes, begin=BEGIN_GROUPED, **changes)


def universal_groups(axes: Axes) -> Repro | None:
    """The same through a universal checkpoint: the options, and the weights."""
    options = """
        found = [[group["lr"], group["weight_decay"]] for group in engine.optimizer.param_groups]
        wanted = [[0.01, 0.1], [0.005, 0.0]]
        assert found == wanted, f"the groups have the options {found}, saved were {wanted}"
    """
    same = """
        saved = torch.load("saved0.pt")
        assert torch.equal(weights(engine.module), saved), "loading gave other weights than were saved"
    """
    in_pieces = axes["stage"] == 3
    save = lines("" if in_pieces else 'torch.save(weights(engine.module), f"saved{rank}.pt")', SAVE)
    load = lines(LOAD, options if in_pieces else same)
    expected = "A universal checkpoint gives each parameter group its own options and weights."
    return grouped(axes, save=save, between=CONVERT, load_config=UNIVERSAL, load=load, expected=expected)


SHORT: dict[str, dict[str, Short]] = {
    "deepspeed": {
        "resume": resume,
        "resume_groups": grouped,
        "resize": resize,
        "change_stage": change_stage,
        "whole_weights": whole_weights,
        "whole_weights_round_robin": whole_weights,
        "load_part": load_part,
        "latest": latest,
        "killed_save": killed_save,
        "universal": universal,
        "universal_round_robin": universal,
        "universal_groups": universal_groups,
    },
}
"""By the names of integrations and cases."""
