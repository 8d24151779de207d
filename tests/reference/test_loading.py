"""Checkpoints that do not fit: refused with the remedy. Real ones are the checkpoint suite's cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from deepspeed.runtime.zero.utils import ZeRORuntimeException

from conformance.reference import CheckpointError
from conformance.reference.loading import guard_loading, refuse_wrapped_on_one_side


class Engine:
    """What loads as DeepSpeed's engine does, as far as the guard sees it: in a job of `now` ranks, at a stage."""

    def __init__(
        self, now: int = 4, *, stage: int = 3, error: Exception | None = None, universal: bool = False
    ) -> None:
        self.module = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.BatchNorm1d(1))
        self.seq_dp_world_size = now
        self.stage, self.error, self.universal = stage, error, universal
        self.loaded_checkpoint_dp_world_size = 2
        self.loaded: list[Any] = []
        guard_loading(self)

    def zero_optimization(self) -> bool:
        return self.stage > 0

    def load_universal_checkpoint(self) -> bool:
        return self.universal

    def load_checkpoint(self, load_dir: str, tag: object = None, load_module_strict: bool = True) -> object:
        """DeepSpeed's words."""
        if self.error is not None:
            raise self.error
        self.loaded.append((load_dir, tag, load_module_strict))
        return "path"

    def load_module_state_dict(
        self, checkpoint: dict[str, Any], strict: bool = True, custom_load_fn: Any = None
    ) -> None:
        self.loaded.append((strict, custom_load_fn))


def save(folder: Path, *names: str) -> Path:
    """A checkpoint with empty files of these names, the latest one."""
    (folder / "one").mkdir()
    (folder / "latest").write_text("one", encoding="utf-8")
    (folder / "latest_universal").write_text("one", encoding="utf-8")
    for name in names:
        path = folder / "one" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return folder


def test_a_load_goes_through_as_it_was_called() -> None:
    engine = Engine()
    assert engine.load_checkpoint("folder", "tag", load_module_strict=False) == "path"
    assert engine.load_checkpoint(load_dir="folder") == "path"
    assert engine.loaded == [("folder", "tag", False), ("folder", None, True)]
    assert engine.load_checkpoint.__doc__ == "DeepSpeed's words."


def test_another_number_of_ranks_points_at_universal_checkpoints(tmp_path: Path) -> None:
    engine = Engine(error=ZeRORuntimeException("used a DP world size of 2"))
    with pytest.raises(CheckpointError) as caught:
        engine.load_checkpoint(str(tmp_path))
    assert (caught.value.subject, caught.value.found) == (f"checkpoint {tmp_path}", "one of 2 data-parallel ranks")
    assert caught.value.expected.startswith("one of 4, as this job has")
    assert "start 2 ranks; or convert it to a universal checkpoint" in caught.value.remedy
    assert isinstance(caught.value.__cause__, ZeRORuntimeException)


@pytest.mark.parametrize("tag", [None, "one"])
def test_a_rank_beyond_the_saved_ones_learns_of_it_too(tmp_path: Path, tag: str | None) -> None:
    """In stage 3 DeepSpeed raises a bare AssertionError there."""
    names = [f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt" for rank in range(3)]
    engine = Engine(error=AssertionError())
    with pytest.raises(CheckpointError, match="found one of 3 data-parallel ranks"):
        engine.load_checkpoint(str(save(tmp_path, *names)), tag)


@pytest.mark.parametrize(
    ("engine", "names"),
    [
        (Engine(4, error=AssertionError("other")), ["bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt"]),
        (Engine(4, error=AssertionError("other")), ["mp_rank_00_model_states.pt"]),
        (Engine(2, error=ZeRORuntimeException("other")), []),
        (Engine(4, stage=0, error=AssertionError("other")), ["zero_pp_rank_0_mp_rank_00_model_states.pt"]),
        (Engine(4, error=RuntimeError("other")), ["zero_pp_rank_0_mp_rank_00_model_states.pt"]),
    ],
)
def test_other_refusals_of_deepspeed_pass_through(tmp_path: Path, engine: Engine, names: list[str]) -> None:
    with pytest.raises(type(engine.error), match="other"):  # type: ignore[arg-type]
        engine.load_checkpoint(str(save(tmp_path, *names)))
    with pytest.raises(type(engine.error), match="other"):  # type: ignore[arg-type]
        engine.load_checkpoint(str(tmp_path / "nowhere"))


PLAIN = ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"]


@pytest.mark.parametrize(
    ("saved", "words", "remedy"),
    [
        ([f"_orig_mod.{name}" for name in PLAIN], "_orig_mod.0.bias, which is 0.bias in the model", "wrap the model"),
        (["0._orig_mod.weight", *PLAIN[1:]], "0._orig_mod.weight, which is 0.weight in the model", "wrap the model"),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_weights_that_a_compiled_model_saved_are_refused(
    saved: list[str], words: str, remedy: str, strict: bool
) -> None:
    """A strict load lists all names twice, another one loads nothing and says nothing."""
    engine = Engine()
    with pytest.raises(CheckpointError) as caught:
        engine.load_module_state_dict({"module": dict.fromkeys(saved, 0)}, strict=strict)
    assert words in caught.value.found
    assert caught.value.remedy.startswith(remedy)
    assert "engine.compile()" in caught.value.remedy
    assert engine.loaded == []


def test_weights_for_a_compiled_model_that_were_saved_without_are_refused() -> None:
    engine = Engine()
    engine.module = torch.compile(engine.module, backend="eager")  # type: ignore[assignment]
    with pytest.raises(CheckpointError) as caught:
        engine.load_module_state_dict(checkpoint={"module": dict.fromkeys(PLAIN, 0)})
    assert "0.bias, which is _orig_mod.0.bias in the model" in caught.value.found
    assert caught.value.remedy.startswith("do not wrap the model")
    engine.load_module_state_dict({"module": dict.fromkeys([f"_orig_mod.{name}" for name in PLAIN], 0)})
    assert engine.loaded == [(True, None)]


@pytest.mark.parametrize("module", [dict.fromkeys([*PLAIN, "more"], 0), dict.fromkeys(PLAIN[1:], 0), {}, None])
def test_other_differences_are_left_to_torch(module: dict[str, int] | None) -> None:
    engine = Engine()
    engine.load_module_state_dict({"module": module}, strict=False)
    assert engine.loaded == [(False, None)]


def test_a_caller_who_loads_the_weights_is_not_checked() -> None:
    engine = Engine()
    engine.load_module_state_dict({"module": {"_orig_mod.0.bias": 0}}, custom_load_fn=print)
    assert engine.loaded == [(True, print)]


def test_a_universal_checkpoint_of_a_compiled_model_is_refused(tmp_path: Path) -> None:
    engine = Engine(universal=True)
    folder = str(save(tmp_path, *[f"zero/_orig_mod.{name}" for name in PLAIN[:4]]))
    with pytest.raises(CheckpointError, match=r"torch\.compile wrapped the model on one side only"):
        engine.load_checkpoint(folder)
    assert engine.loaded == []


def test_names_are_compared_with_the_wrapper_anywhere() -> None:
    refuse_wrapped_on_one_side(["a._orig_mod.b"], ["a._orig_mod.b", "c"])
    with pytest.raises(CheckpointError, match=r"_orig_mod\.a\.b, which is a\._orig_mod\.b"):
        refuse_wrapped_on_one_side(["_orig_mod.a.b"], ["a._orig_mod.b"])
