"""The DeepSpeed config: read without surprises, and refused where DeepSpeed would silently ignore a part of it."""

from __future__ import annotations

import copy
import difflib
import inspect
import os
from collections.abc import Iterable, Iterator, KeysView, Mapping
from pathlib import Path
from typing import Any

from conformance.reference.errors import ConfigError
from conformance.reference.plain import plain

Config = Mapping[str, Any] | str | os.PathLike[str]


def load_config(config: Config) -> dict[str, Any]:
    """A config of the caller's, as a dict that DeepSpeed may change.

    Args:
        config: a mapping, which is copied deeply and into plain types (DeepSpeed writes into what it is given, and
            saves it with every checkpoint); or the path of a file in JSON or Hjson, read as UTF-8 (DeepSpeed reads it
            in the locale's encoding, on Windows often cp1252).

    Raises:
        ConfigError: it is something else, or holds what JSON cannot hold; or the file is missing, is no (H)JSON
            object, or holds a key twice.
    """
    if isinstance(config, Mapping):
        copied: dict[str, Any] = plain(config)
        return copied
    if not isinstance(config, (str, os.PathLike)):
        raise ConfigError(
            "config",
            f"{type(config).__name__} {config!r}",
            "a dict, or the path of a JSON or Hjson file",
            "pass the config itself: initialize(model, config)",
        )
    path = Path(config)
    try:
        # Notepad and PowerShell begin UTF-8 files with a byte order mark.
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"config {path}", f"byte {error.start} is not UTF-8", "UTF-8 text", "save the file as UTF-8"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise ConfigError(
            f"config {str(path)[:200]}",
            f"{getattr(error, 'strerror', None) or error}, from folder {Path.cwd()}",
            "a JSON or Hjson file",
            "check the path; a relative one starts at the current folder",
        ) from error
    return _parse(text, path)


def _parse(text: str, path: Path) -> dict[str, Any]:
    import hjson  # what DeepSpeed itself reads configs with

    try:
        content = hjson.loads(text, object_pairs_hook=_without_duplicates)
    except hjson.HjsonDecodeError as error:
        raise ConfigError(f"config {path}", str(error), "JSON or Hjson", "correct the file at that line") from error
    except _DuplicateKeys as error:
        raise ConfigError(
            f"config {path}", f"{', '.join(error.keys)} more than once in one object", "each key once", "remove one"
        ) from error
    if not isinstance(content, dict):
        raise ConfigError(
            f"config {path}", f"a {type(content).__name__}", "an object: {…}", "put the settings between braces"
        )
    return content


class _DuplicateKeys(Exception):
    def __init__(self, keys: list[str]) -> None:
        super().__init__(keys)
        self.keys = keys


def _without_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    twice: list[str] = []
    for key, value in pairs:
        if key in content:
            twice.append(key)
        content[key] = value
    if twice:
        raise _DuplicateKeys(twice)
    return content


def refuse_unknown_keys(config: Mapping[str, Any]) -> None:
    """Refuse a top-level key that DeepSpeed does not know, which it would ignore: a misspelt one changes nothing.

    Raises:
        ConfigError: there is such a key; the message names the nearest known one.
        Exception: DeepSpeed's own refusal of a config, unchanged.
    """
    known = known_keys(config)
    unknown = [key for key in config if key not in known]
    if not unknown:
        return
    guesses = {key: difflib.get_close_matches(str(key), known, n=1) for key in unknown}
    hints = [f"{key}: did you mean {near[0]}?" for key, near in guesses.items() if near]
    raise ConfigError(
        "config",
        f"top-level key {', '.join(map(repr, unknown))}",
        "keys that the installed DeepSpeed reads; it would ignore others and say nothing",
        " ".join([*hints, "Correct or remove it, or pass strict=False to keep it"]),
    )


def known_keys(config: Mapping[str, Any]) -> set[str]:
    """The top-level keys that the installed DeepSpeed reads from this config.

    DeepSpeed publishes no list of them, so it is watched: its config class parses the config from a dict that notes
    which keys are asked for. `deepspeed.initialize` reads a few more itself; those are taken from its constants.

    Raises:
        Exception: DeepSpeed's own refusal of a config, unchanged.
    """
    import deepspeed
    from deepspeed.runtime.config import DeepSpeedConfig
    from deepspeed.runtime.constants import (
        GRADIENT_ACCUMULATION_STEPS,
        TRAIN_BATCH_SIZE,
        TRAIN_MICRO_BATCH_SIZE_PER_GPU,
    )

    # The batch sizes are checked against the world's, and the ranks have not met yet.
    batch = {TRAIN_BATCH_SIZE, TRAIN_MICRO_BATCH_SIZE_PER_GPU, GRADIENT_ACCUMULATION_STEPS}
    watched = _Watched({key: value for key, value in copy.deepcopy(dict(config)).items() if key not in batch})
    watched[TRAIN_MICRO_BATCH_SIZE_PER_GPU] = 1
    DeepSpeedConfig(watched)
    code = inspect.unwrap(deepspeed.initialize).__code__
    constants = {constant for constant in code.co_consts if isinstance(constant, str)}
    return watched.asked | batch | constants


class _Watched(dict[str, Any]):
    """A dict that notes which keys it is asked for."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self.asked: set[str] = set()

    def __copy__(self) -> _Watched:
        return self  # DeepSpeed reads from a shallow copy; what it asks that for counts too

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        return _WatchedKeys(self)


class _WatchedKeys(KeysView[str]):
    """`key in config.keys()` asks for a key as well; KeysView looks it up in the mapping itself."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping)  # type: ignore[attr-defined]
