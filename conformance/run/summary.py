"""Observations in short, as a record keeps them."""

from __future__ import annotations

import hashlib
import math
from typing import Any

LONGEST_LIST = 12
LONGEST_TEXT = 400
MOST_KEYS = 40


def in_short(value: Any) -> Any:
    """`value` as JSON data of bounded size: arrays as shape, type and digest; long lists, texts and dicts cut."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}… ({len(value)} characters)"
    if isinstance(value, bytes):
        return f"{len(value)} bytes, sha256 {hashlib.sha256(value).hexdigest()[:12]}"
    if isinstance(value, dict):
        short = {str(key): in_short(item) for key, item in list(value.items())[:MOST_KEYS]}
        if len(value) > MOST_KEYS:
            short["…"] = f"{len(value) - MOST_KEYS} more"
        return short
    if isinstance(value, list | tuple):
        items = [in_short(item) for item in value[:LONGEST_LIST]]
        return items if len(value) <= LONGEST_LIST else [*items, f"… {len(value) - LONGEST_LIST} more"]
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        digest = hashlib.sha256(value.tobytes()).hexdigest()[:12]
        return f"{dtype} array of shape {tuple(shape)}, sha256 {digest}"
    return f"{type(value).__name__}"
