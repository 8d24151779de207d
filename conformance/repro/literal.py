"""Values as code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

WIDTH: Final = 110
"""Columns of a line, but for what cannot be broken."""


class Code(str):
    """Code within a value, such as the name of a variable; as a key, `**NAME` with the value Code("")."""

    __slots__ = ()


def literal(value: Mapping[str, Any], indent: int = 0) -> str:
    """A mapping as code, a line for each key; inner mappings in one line where they fit. Double quotes."""
    lines = []
    for key, item in value.items():
        line = _item(key, item)
        if isinstance(item, Mapping) and indent + 5 + len(line) > WIDTH:
            line = f"{plain(key)}: {literal(item, indent + 4)}"
        lines.append(f"{' ' * (indent + 4)}{line},\n")
    return f"{{\n{''.join(lines)}{' ' * indent}}}"


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
