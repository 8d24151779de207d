"""What DeepSpeed would not do is refused by name, before anything starts."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch.utils.data

from conformance.reference import ConfigError, DataError
from conformance.reference.refusals import refuse_auto, refuse_lost_sequence_parallelism, refuse_training_data

TRAINERS = {
    "train_batch_size": "auto",
    "gradient_clipping": "auto",
    "fp16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": [0.9, "auto"]}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"},
}
"""As in the configs that transformers' documentation shows."""


def test_auto_is_refused_with_the_name_of_each_key() -> None:
    with pytest.raises(ConfigError) as caught:
        refuse_auto(TRAINERS)
    assert caught.value.found == (
        '"auto" for train_batch_size, gradient_clipping, fp16.enabled, optimizer.params.lr, optimizer.params.betas.1, '
        "scheduler.params.warmup_num_steps, zero_optimization.reduce_bucket_size"
    )
    assert "Hugging Face's Trainer" in caught.value.expected
    assert "leave these keys out" in caught.value.remedy


@pytest.mark.parametrize(
    "config",
    [
        {"pipeline": {"stages": "auto"}},
        {"zero_optimization": {"zenflow": {"select_strategy": "auto"}}},
        {"data_types": {"keep_in_fp32_modules": "auto"}},
        {"expert_parallel": {"score_func": "auto"}},
        {"optimizer": {"params": {"mode": "automatic"}}},
    ],
)
def test_auto_that_deepspeed_understands_itself_passes(config: dict[str, Any]) -> None:
    refuse_auto(config)


@pytest.mark.parametrize("mpu", [None, types.SimpleNamespace(get_model_parallel_world_size=lambda: 1)])
def test_sequence_parallelism_that_nobody_makes_groups_for_is_refused(mpu: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        refuse_lost_sequence_parallelism({"sequence_parallel_size": 2}, mpu)
    assert caught.value.subject == "config sequence_parallel_size"
    assert "register_with_transformers" in caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "mpu"),
    [
        ({"sequence_parallel_size": 1}, None),
        ({"data_parallel_size": 2}, None),
        ({"compile": {"deepcompile": True, "passes": ["autosp"]}}, None),
        ({}, types.SimpleNamespace(get_sequence_parallel_world_size=lambda: 2)),
    ],
)
def test_sequence_parallelism_that_has_groups_passes(changes: dict[str, Any], mpu: Any) -> None:
    refuse_lost_sequence_parallelism({"sequence_parallel_size": 2} | changes, mpu)


class Stream(torch.utils.data.IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


class SizedStream(Stream):
    def __len__(self) -> int:
        return 4


class Unsized(torch.utils.data.Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (Stream(), "a Stream, without __len__"),
        (SizedStream(), "a SizedStream, which is an IterableDataset"),
        (Unsized(), "a Unsized, without __len__"),
        (iter([1]), "a list_iterator, without __len__ and __getitem__"),
    ],
)
def test_data_that_cannot_be_shared_out_is_refused(data: Any, found: str) -> None:
    with pytest.raises(DataError) as caught:
        refuse_training_data(data)
    assert caught.value.found == found
    assert "DataLoader of your own" in caught.value.remedy


@pytest.mark.parametrize("data", [None, [1, 2], torch.utils.data.TensorDataset(torch.ones(2))])
def test_data_with_a_length_passes(data: Any) -> None:
    refuse_training_data(data)
