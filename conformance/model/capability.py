"""Capabilities: what a host can do, each under a name, and conditions over them."""

from __future__ import annotations

import codecs
import dataclasses
import operator
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import pydantic

Value = bool | int | float | str

KINDS: Final[Mapping[str, type[bool] | type[float] | type[str]]] = {
    "accelerator": str,
    "amx": bool,
    "aten_isa": str,
    "bf16": bool,
    "container": str,
    "cores": float,
    "filesystem_encoding": str,
    "fp16": bool,
    "ipv6": bool,
    "libuv": bool,
    "locale_encoding": str,
    "memory_bytes": float,
    "onednn_isa": str,
    "shm_bytes": float,
}
"""Every capability, and whether it is true or false, a number (`float` stands for whole ones too), or a text. What each
means is told where it is found: `conformance.hosts.capabilities`."""

_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_COMPARISON = re.compile(r"(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)?)\s*(GiB|MiB)?")
_UNITS: Final = {"GiB": 1 << 30, "MiB": 1 << 20, None: 1}
_NEED = re.compile(r"(\w*)\s*(?:=(?!=)\s*)?(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Condition:
    """What is wanted of one capability.

    Attributes:
        name: one of KINDS.
        wanted: true or false; of a number a comparison such as `>=4` or `>=3 GiB`; of a text a glob (`*` and `?` are
            special), with `!` in front for any other text.

    Raises:
        ValueError: there is no such capability, or this cannot be wanted of it.
    """

    name: str
    wanted: bool | str

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise ValueError(f"a capability: {', '.join(KINDS)} (found {self.name!r})")
        kind = KINDS[self.name]
        if kind is bool and not isinstance(self.wanted, bool):
            raise ValueError(f"true or false for {self.name} (found {self.wanted!r})")
        if kind is float and not (isinstance(self.wanted, str) and _COMPARISON.fullmatch(self.wanted)):
            raise ValueError(f'a comparison such as ">=4" or ">=3 GiB" for {self.name} (found {self.wanted!r})')
        if kind is str and not (isinstance(self.wanted, str) and self.wanted.removeprefix("!")):
            raise ValueError(f'a glob such as "utf-8" or "!*AMX*" for {self.name} (found {self.wanted!r})')

    def __str__(self) -> str:
        if KINDS[self.name] is float:
            return f"{self.name} {self.wanted}"
        return f"{self.name} = {str(self.wanted).lower() if isinstance(self.wanted, bool) else self.wanted}"

    def holds(self, known: Mapping[str, Value]) -> bool:
        """Whether a host with the capabilities `known` is such a one. What is not known holds no condition."""
        if self.name not in known:
            return False
        found = known[self.name]
        if isinstance(self.wanted, bool):
            return found is self.wanted
        if KINDS[self.name] is float:
            parts = _COMPARISON.fullmatch(self.wanted)
            assert parts is not None and not isinstance(found, str)
            return _COMPARISONS[parts[1]](found, float(parts[2]) * _UNITS[parts[3]])
        glob = self.wanted.removeprefix("!")
        pattern = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in glob)
        fits = re.fullmatch(pattern, str(found), re.DOTALL | re.IGNORECASE) is not None
        return fits is not self.wanted.startswith("!")


def condition_of(need: str) -> Condition:
    """What stands behind `can:` in a need: `fp16`, `fp16=false`, `cores>=4`, `locale_encoding=!utf-8`.

    Raises:
        ValueError: it is no condition.
    """
    parts = _NEED.fullmatch(need)
    assert parts is not None
    name, wanted = parts[1], parts[2]
    if KINDS.get(name) is bool:
        return Condition(name, {"": True, "true": True, "false": False}.get(wanted, wanted))
    return Condition(name, wanted)


def _parsed(table: object) -> object:
    if not isinstance(table, Mapping):
        raise ValueError("a table of capabilities")
    return tuple(Condition(name, wanted) for name, wanted in table.items())


Conditions = Annotated[tuple[Condition, ...], pydantic.BeforeValidator(_parsed)]
"""A table of a matrix file: what is wanted of each capability. Every condition must hold."""


def encoding_name(name: str) -> str:
    """An encoding as conditions have it: Python's own name of it, such as `utf-8`, `gbk`, `cp1252` or `ascii`."""
    try:
        return codecs.lookup(name).name
    except LookupError:
        return name.lower()
