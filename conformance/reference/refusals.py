"""What a call asks for and DeepSpeed would not do: refused before the ranks meet, so that none is left waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.reference.errors import ConfigError, DataError

_FILLED_BY_TRAINER = ("optimizer", "scheduler", "fp16", "bf16", "bfloat16", "amp", "zero_optimization")
"""The tables in which Hugging Face's Trainer puts numbers for "auto"; it does so at the top level too."""
_DEEPSPEEDS_OWN = ("zenflow",)
"""Tables within these where "auto" means something to DeepSpeed itself."""


def refuse_auto(config: Mapping[str, Any]) -> None:
    """Refuse the value "auto", which only Hugging Face's Trainer replaces.

    Without it, DeepSpeed compares some of them with numbers, which raises TypeError after the ranks met, and takes
    defaults for the others: `"fp16": {"enabled": "auto"}` trains in float32.

    Raises:
        ConfigError: there are such values; the message names all.
    """
    found = [
        ".".join(path)
        for path in _paths_of_auto(config)
        if len(path) == 1 or (path[0] in _FILLED_BY_TRAINER and not set(path) & set(_DEEPSPEEDS_OWN))
    ]
    if found:
        raise ConfigError(
            "config",
            f'"auto" for {", ".join(found)}',
            'values: only Hugging Face\'s Trainer replaces "auto", and DeepSpeed fails on it or takes its default',
            "write the values that you mean, or leave these keys out for DeepSpeed's defaults",
        )


def _paths_of_auto(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if value == "auto":
        yield path
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _paths_of_auto(inner, (*path, str(key)))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, inner in enumerate(value):
            yield from _paths_of_auto(inner, (*path, str(index)))


def refuse_lost_sequence_parallelism(config: Mapping[str, Any], mpu: Any) -> None:
    """Refuse a sequence_parallel_size that would have no effect but on the batch sizes.

    DeepSpeed takes the groups of sequence parallelism from the mpu, from a device mesh, which it makes where the config
    holds data_parallel_size too, or from its compiler pass autosp; otherwise each rank trains on whole sequences.

    Raises:
        ConfigError: it is more than 1, and none of these is there.
    """
    size = config.get("sequence_parallel_size", 1)
    if not isinstance(size, int) or size <= 1:
        return
    compiler = config.get("compile")
    passes = compiler.get("passes") if isinstance(compiler, Mapping) else None
    if hasattr(mpu, "get_sequence_parallel_world_size") or "data_parallel_size" in config or "autosp" in (passes or ()):
        return
    raise ConfigError(
        "config sequence_parallel_size",
        f"{size}, without an mpu that has groups for it",
        "groups of ranks that share a sequence; DeepSpeed would train as if the key were not there",
        "pass mpu=, such as the one that UlyssesSPAttentionHF.register_with_transformers returns; or set "
        "data_parallel_size too, and DeepSpeed makes the groups; or leave the key out",
    )


def refuse_training_data(data: Any) -> None:
    """Refuse training data that DeepSpeed's loader cannot share out among the ranks: it numbers the samples.

    Raises:
        DataError: it is an IterableDataset, or has no length or no access by number.
    """
    import torch.utils.data

    lacks = [name for name in ("__len__", "__getitem__") if not hasattr(type(data), name)]
    if data is None or not (lacks or isinstance(data, torch.utils.data.IterableDataset)):
        return
    kind = f"a {type(data).__name__}"
    raise DataError(
        "training_data",
        f"{kind}, without {' and '.join(lacks)}" if lacks else f"{kind}, which is an IterableDataset",
        "a dataset with __len__ and __getitem__, of which DeepSpeed gives each rank its share",
        "leave training_data out and give the engine batches of a DataLoader of your own, in which each rank reads its "
        "own part of the stream",
    )
