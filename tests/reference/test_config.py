"""Reading configs, and refusing what DeepSpeed would ignore."""

from __future__ import annotations

import collections
import enum
import http
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.reference import ConfigError, load_config
from conformance.reference.config import known_keys, refuse_unknown_keys

SMALL = {"train_batch_size": 4, "zero_optimization": {"stage": 2}}


def test_a_dict_is_copied_deeply() -> None:
    """INIT-09: DeepSpeed copies only the outermost dict."""
    config: dict[str, Any] = {"zero_optimization": {"stage": 2}}
    loaded = load_config(types.MappingProxyType(config))
    loaded["zero_optimization"]["stage"] = 3
    assert config == {"zero_optimization": {"stage": 2}}


class Lazy(Mapping[str, Any]):
    """A mapping that is no dict, as OmegaConf's are."""

    def __init__(self, **content: Any) -> None:
        self.content = content

    def __getitem__(self, key: str) -> Any:
        if self.content[key] is ...:
            raise LookupError("interpolation key 'rate' not found")
        return self.content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)


class Letters(str):
    def __str__(self) -> str:
        return "not these"


class Kind(enum.Enum):
    ADAM = "AdamW"


def test_every_mapping_and_value_becomes_plain_at_all_depths() -> None:
    """DeepSpeed saves the config with every checkpoint: foreign types in it forbid torch.load(weights_only=True)."""
    betas = collections.UserList([np.float32(0.5), np.float64(0.25)])
    params = Lazy(lr=np.float64(0.1), betas=betas, steps=np.int64(3), on=np.bool_(True), eps=(1, 2.5))
    config = Lazy(
        optimizer=types.MappingProxyType({"type": Kind.ADAM, "params": params}),
        zero_optimization={Letters("stage"): http.HTTPStatus.OK, "path": Path("a/b"), "name": Letters("nvme")},
        none=None,
    )
    loaded = load_config(config)
    assert loaded == {
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": 0.1, "betas": [0.5, 0.25], "steps": 3, "on": True, "eps": (1, 2.5)},
        },
        "zero_optimization": {"stage": 200, "path": str(Path("a/b")), "name": "nvme"},
        "none": None,
    }
    assert types_in(loaded) == {dict, list, tuple, str, int, float, bool, type(None)}


def types_in(value: Any) -> set[type]:
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
    return {type(value)}.union(*map(types_in, inner))


@pytest.mark.parametrize(
    ("config", "subject", "found"),
    [
        ({"zero_optimization": {"a": [1, object()]}}, "config zero_optimization.a[1]", "a builtins.object"),
        ({"optimizer": {"type": b"Adam"}}, "config optimizer.type", "a builtins.bytes"),
        (Lazy(optimizer=Lazy(lr=...)), "config optimizer", "a Lazy that cannot be read (interpolation key 'rate'"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_its_place(config: Any, subject: str, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config)
    assert caught.value.subject == subject
    assert caught.value.found.startswith(found)


def test_a_config_that_contains_itself_is_refused() -> None:
    config: dict[str, Any] = {}
    config["zero_optimization"] = {"again": config}
    with pytest.raises(ConfigError, match="contains itself"):
        load_config(config)


HJSON = """\
{
  # a comment, and a key without quotes
  train_batch_size: 4,
  "zero_optimization": {"stage": 2,},
}
"""


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_file_is_read_as_utf_8_json_or_hjson(tmp_path: Path, mark: str, as_text: bool) -> None:
    path = tmp_path / "Größe 1.json"
    path.write_text(mark + HJSON, encoding="utf-8", newline="\r\n")
    assert load_config(str(path) if as_text else path) == SMALL


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1', "line 1"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', "b more than once in one object"),
        (b"[1, 2]", "found a list"),
        (b'{"a": "\xe9"}', "byte 7 is not UTF-8"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "ds config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.subject == f"config {path}"
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "config", ["missing.json", Path("missing.json"), "eyJ0cmFpbl9iYXRjaF9zaXplIjogNH0=" * 50, "a\0b"]
)
def test_a_path_without_a_file_is_refused(config: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_config(config)
    assert str(config)[:100] in caught.value.subject
    assert "expected a JSON or Hjson file" in str(caught.value)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a JSON or Hjson file"):
        load_config(tmp_path)


@pytest.mark.parametrize("config", [None, 3, [("train_batch_size", 4)]])
def test_other_kinds_are_refused(config: Any) -> None:
    with pytest.raises(ConfigError, match="expected a dict, or the path of a JSON or Hjson file"):
        load_config(config)


def test_every_documented_key_is_known() -> None:
    """The top-level keys of DeepSpeed's configuration page that its 0.19 still reads."""
    documented = """\
        train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps optimizer scheduler
        communication_data_type prescale_gradients gradient_predivide_factor fp16 bf16 gradient_clipping
        zero_optimization zero_allow_untested_optimizer zero_force_ds_cpu_optimizer steps_per_print
        wall_clock_breakdown dump_state flops_profiler activation_checkpointing aio autotuning checkpoint data_types
        data_efficiency comms_logger tensorboard wandb csv_monitor comet hybrid_engine pipeline compile
        dataloader_drop_last memory_breakdown torch_autocast tensor_parallel timers
        sequence_parallel_size data_parallel_size seq_parallel_communication_data_type
    """
    assert set(documented.split()) <= known_keys(SMALL)


def test_what_deepspeed_knows_passes_whatever_the_world_will_be() -> None:
    # 8 = 2 × 2 × world: right for two ranks, while this process has none yet
    config = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}
    refuse_unknown_keys(config)
    assert config["train_micro_batch_size_per_gpu"] == 2


def test_a_misspelt_key_is_refused_with_the_nearest_known_one() -> None:
    """INIT-12: DeepSpeed ignores it."""
    with pytest.raises(ConfigError) as caught:
        refuse_unknown_keys(SMALL | {"gradient_cliping": 0.5, "my_own": 1})
    message = str(caught.value)
    assert "top-level key 'gradient_cliping', 'my_own'" in message
    assert "gradient_cliping: did you mean gradient_clipping?" in message
    assert "strict=False" in message


def test_deepspeeds_own_refusals_pass_through() -> None:
    from deepspeed import DeepSpeedConfigError

    with pytest.raises(DeepSpeedConfigError, match="elasticity"):
        refuse_unknown_keys(SMALL | {"elasticity": {}})
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        refuse_unknown_keys(SMALL | {"zero_optimization": {"stge": 2}})
