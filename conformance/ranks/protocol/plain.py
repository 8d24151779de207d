"""What a scenario may return: plain data that any process can read without torch."""

from __future__ import annotations

import sys
from typing import Any

_PLAIN = (type(None), bool, int, float, str, bytes)


def not_plain(value: Any, where: str = "the result") -> str | None:
    """Why `value` is not plain data, naming the place, or None when it is.

    Plain are None, bool, int, float, str, bytes, lists, tuples and dicts of them, and numpy arrays of numbers, strings
    or bytes; types count exactly, since a subclass brings its module along.

    Raises:
        RecursionError: it contains itself.
    """
    kind = type(value)
    if kind in _PLAIN:
        return None
    if kind is dict:
        for key, item in value.items():
            reason = not_plain(key, f"key {key!r} of {where}") or not_plain(item, f"{where}[{key!r}]")
            if reason:
                return reason
        return None
    if kind is list or kind is tuple:
        for index, item in enumerate(value):
            if reason := not_plain(item, f"{where}[{index}]"):
                return reason
        return None
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray:
        if value.dtype.kind in "biufcSU":
            return None
        return f"{where} is a numpy array of dtype {value.dtype}; expected numbers, strings or bytes"
    name = f"{kind.__module__}.{kind.__qualname__}"
    if numpy is not None and isinstance(value, numpy.generic):
        return f"{where} is a numpy scalar ({name}); return `.item()` of it"
    if name in ("torch.Tensor", "torch.nn.parameter.Parameter"):
        return f"{where} is a {name}; return `.detach().float().cpu().numpy()` of it"
    return f"{where} is a {name}; expected None, bool, int, float, str, bytes, list, tuple, dict or a numpy array"
