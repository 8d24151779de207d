"""Loading checkpoints: what DeepSpeed refuses without a remedy, or loads in part without a word, refused with one.

- ZeRO's stages hold a part of the optimizer for each rank: a checkpoint of another number of ranks is refused by
  DeepSpeed, in stage 3 by an error without text in the ranks that have no file. Universal checkpoints are the way.
- `torch.compile(model)` puts `_orig_mod.` into the names of all weights. Where it wrapped the model on one side only,
  a strict load lists every name twice, and one with load_module_strict=False loads nothing.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conformance.reference.errors import CheckpointError

_WRAPPED = "_orig_mod."
_PARTITION = re.compile(r"zero_pp_rank_(\d+)_mp_rank_\d+_(?:model|optim)_states\.pt$")


def guard_loading(engine: Any) -> None:
    """Have this engine's load_checkpoint say what to do, where it would fail or load nothing.

    Raises from then on, in load_checkpoint:
        CheckpointError: the checkpoint is of another number of ranks, or torch.compile wrapped the model on one side.
    """
    load, load_module = engine.load_checkpoint, engine.load_module_state_dict
    to_load, to_load_module = inspect.signature(load), inspect.signature(load_module)

    @functools.wraps(load)
    def load_checkpoint(*args: Any, **named: Any) -> Any:
        from deepspeed.runtime.zero.utils import ZeRORuntimeException

        given = to_load.bind(*args, **named).arguments
        folder, tag = Path(given["load_dir"] or ""), given.get("tag")
        if engine.load_universal_checkpoint():
            refuse_wrapped_on_one_side(_files(folder, tag, "latest_universal", "zero"), _names(engine.module))
        try:
            return load(*args, **named)
        except (ZeRORuntimeException, AssertionError) as error:
            # A rank that has no file of its own meets with an assertion.
            fails = isinstance(error, AssertionError)
            saved = _saved_world(folder, tag) if fails else engine.loaded_checkpoint_dp_world_size
            if not engine.zero_optimization() or saved in (None, engine.seq_dp_world_size):
                raise
            raise _of_another_world(folder, saved, engine.seq_dp_world_size) from error

    @functools.wraps(load_module)
    def load_module_state_dict(*args: Any, **named: Any) -> Any:
        given = to_load_module.bind(*args, **named).arguments
        if not given.get("custom_load_fn"):
            refuse_wrapped_on_one_side(given["checkpoint"].get("module") or (), _names(engine.module))
        return load_module(*args, **named)

    engine.load_checkpoint = load_checkpoint
    engine.load_module_state_dict = load_module_state_dict


def refuse_wrapped_on_one_side(saved: Iterable[str], own: Iterable[str]) -> None:
    """Refuse weights that only lack, or only have, what torch.compile puts into their names. Pure.

    Args:
        saved: the names in the checkpoint.
        own: the names in the model.

    Raises:
        CheckpointError: there are such weights.
    """
    strangers, missing = set(saved) - set(own), set(own) - set(saved)
    plain = {name.replace(_WRAPPED, ""): name for name in missing}
    for name in sorted(strangers):
        other = plain.get(name.replace(_WRAPPED, ""))
        if other is None:
            continue
        if name.count(_WRAPPED) > other.count(_WRAPPED):
            remedy = "wrap the model with torch.compile here too, before initialize"
        else:
            remedy = "do not wrap the model with torch.compile before initialize"
        raise CheckpointError(
            "the checkpoint's weights",
            f"{name}, which is {other} in the model: torch.compile wrapped the model on one side only",
            "the same names on both sides",
            f"{remedy}; engine.compile(), after initialize, leaves the names as they are, so that checkpoints fit "
            "compiled or not",
        )


def _names(module: Any) -> list[str]:
    return [name for name, _ in (*module.named_parameters(), *module.named_buffers())]


def _of_another_world(folder: Path, saved: int, now: int) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {folder}",
        f"one of {saved} data-parallel ranks",
        f"one of {now}, as this job has: with ZeRO, each rank loads the part of the optimizer that it had",
        f"start {saved} ranks; or convert it to a universal checkpoint, which loads on any number: python -m "
        "deepspeed.checkpoint.ds_to_universal --input_folder … --output_folder … (of stages 1 and 2 with "
        '--inject_missing_state), and "checkpoint": {"load_universal": true} in the config. Begin with a new engine: '
        "this one may hold the checkpoint's weights without its optimizer",
    )


def _saved_world(folder: Path, tag: object) -> int | None:
    """How many data-parallel ranks saved the checkpoint, by the names of their files; None where there are none."""
    found = [_PARTITION.search(name) for name in _files(folder, tag, "latest")]
    return max((int(match[1]) + 1 for match in found if match), default=None)


def _files(folder: Path, tag: object, latest: str, below: str = "") -> list[str]:
    """What lies in a checkpoint, by name; nothing where there is no such folder, of which DeepSpeed then complains."""
    try:
        name = (folder / latest).read_text(encoding="utf-8").strip() if tag is None else str(tag)
        return [path.name for path in (folder / name / below).iterdir()]
    except (OSError, ValueError):
        return []
