"""Values as code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Code(str):
    """Code within a value, such as the name of a variable; as a key, `**NAME` with the value Code("")."""

    __slots__ = ()


def literal(value: Any) -> str:
    """A mapping as code, a line for each key of the outermost; double quotes."""
    inside = "".join(f"    {_item(key, item)},\n" for key, item in value.items())
    return f"{{\n{inside}}}"


def plain(value: Any) -> str:
    """A value as code in one line; double quotes."""
    match value:
        case Code():
            return str(value)
        case Mapping():
            return "{" + ", ".join(_item(key, item) for key, item in value.items()) + "}"
        case list():
            return f"[{', '.join(map(plain, value))}]"
        case tuple():
            return f"({', '.join(map(plain, value))}{',' if len(value) == 1 else ''})"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case _:
            return repr(value)


def _item(key: Any, value: Any) -> str:
    return str(key) if isinstance(key, Code) else f"{plain(key)}: {plain(value)}"
