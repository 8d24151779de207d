"""Values of a config made plain: dicts, lists, tuples, text, numbers, booleans and None, whatever classes they came as.

DeepSpeed keeps the config and saves it with every checkpoint. An OmegaConf node in it needs OmegaConf to be loaded
again, and `torch.load(weights_only=True)` refuses the file; what is no dict, DeepSpeed partly does not recognise.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.reference.errors import ConfigError

_EXACT = (str, int, float, bool, type(None))


def plain(value: Any, where: str = "") -> Any:
    """A copy of `value`, at all depths of plain types.

    Mappings become dicts and sequences lists (tuples stay tuples); an enumeration's member becomes its value, a path
    its text, a scalar of numpy or of a subclass the number or text that it is.

    Args:
        value: a config, or a part of it.
        where: the keys that lead to it, for messages.

    Raises:
        ConfigError: something cannot be read, contains itself, or is none of these.
    """
    try:
        return _plain(value, where)
    except RecursionError:
        raise ConfigError(
            "config", "a value that contains itself", "nested dicts and lists that end", "remove the circle"
        ) from None


def _plain(value: Any, where: str) -> Any:
    if type(value) in _EXACT:
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value, where)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {_plain(key, where): _plain(inner, _join(where, key)) for key, inner in _items(value, where)}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        kept = tuple if isinstance(value, tuple) else list
        return kept(_plain(inner, f"{where}[{index}]") for index, inner in enumerate(value))
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        number = value.item()  # numpy's integers and booleans are no subclasses of Python's
        if type(number) in _EXACT:
            return number
    raise ConfigError(
        f"config {where}".rstrip(),
        f"a {type(value).__module__}.{type(value).__qualname__}",
        "what JSON can hold: it is saved with every checkpoint",
        "write it as a dict, list, text, number, true, false or null",
    )


def _items(value: Mapping[Any, Any], where: str) -> list[tuple[Any, Any]]:
    try:
        return list(value.items())
    except Exception as error:  # a lazy mapping's own, such as OmegaConf's for an interpolation that leads nowhere
        raise ConfigError(
            f"config {where}".rstrip(),
            f"a {type(value).__name__} that cannot be read ({str(error).partition(chr(10))[0]})",
            "values",
            "resolve it before the call",
        ) from error


def _join(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)
