"""Putting data into a page so that it stays data: escaped JSON, and compressed blocks that are opened on demand."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def compact(value: Any) -> str:
    """JSON without spaces; nan and inf, which JSON has not, must be text already.

    Raises:
        ValueError: a float is nan or inf.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def script_json(value: Any) -> str:
    """JSON for inside a `<script>` element: no `</script`, no `<!--`, no line separators that JavaScript minds."""
    return compact(value).translate(_ESCAPES)


def squeezed(value: Any) -> str:
    """JSON, gzipped, in base64; the same for the same value."""
    packed = gzip.compress(compact(value).encode("utf-8", "replace"), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode("ascii")


class Pool:
    """Values by number, each kept once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.values: list[Any] = []

    def number(self, value: Any) -> int:
        """The value's number, the same for equal values."""
        key = compact(value)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]
