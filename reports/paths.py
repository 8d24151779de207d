"""Taking a machine's folders out of records: what is published shall not tell how someone's disk is laid out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from conformance.model.record import Record
from conformance.model.run_header import RunHeader

Told = TypeVar("Told", Record, RunHeader)

_NAME: Final = r"[^\s\\/\"'<>|:*?,;()\[\]{}]"
_ABSOLUTE: Final = re.compile(
    rf"(?:(?<=file://)(?!/[A-Za-z]:)|(?<=file:///)(?=[A-Za-z]:)|(?<![\w.\\/:<>~]))(?:[A-Za-z]?:)?[\\/]+{_NAME}+(?:[\\/]+{_NAME}+)*[\\/]*"
)
"""A path from the root, of names without spaces; its drive's letter may have been cut off."""
_SOURCE: Final = re.compile(r'(?<=File ")(?:[A-Za-z]:)?[\\/][^"\n]*(?=")')
"""A file in a traceback, whose names may have any character."""
_KEPT: Final = (
    (re.compile(r"^.*[\\/]site-packages[\\/]+"), "site-packages/"),
    (re.compile(r"^.*[\\/](?:[Ll]ib[\\/]+python3\.\d+|Lib)[\\/]+"), "python/"),
    (re.compile(r"^.*[\\/]conformance-[a-z0-9_]{8}(?=[\\/]|$)"), "<folder>"),
    (re.compile(r"^.*[\\/](?=(?:conformance|tests|reports)[\\/])"), ""),
)
"""What comes before these parts of a path is the machine's own."""
_SYSTEM: Final = re.compile(r"^[\\/](?:bin|dev|etc|lib(?:64)?|proc|sys|usr|__w)(?:[\\/]|$)")
"""Alike on every machine of the kind."""


def without(told: Told) -> Told:
    """The record or header with the machine's own folders taken out of all its texts. Pure."""
    fields = told.model_dump()
    if fields["provenance"] is not None:
        variables = fields["provenance"]["environment"]
        for name, value in variables.items():
            if _is_path(value):
                variables[name] = "<path>"
    return type(told).model_validate(_everywhere(fields))


def out_of(text: str) -> str:
    """A text with the machine's own folders taken out. Pure."""
    if "/" not in text and "\\" not in text:
        return text
    return _ABSOLUTE.sub(lambda found: _shortened(found[0]), _SOURCE.sub(lambda found: _shortened(found[0]), text))


def _everywhere(value: Any) -> Any:
    if isinstance(value, str):
        return out_of(value)
    if isinstance(value, Mapping):
        return {out_of(name) if isinstance(name, str) else name: _everywhere(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_everywhere(each) for each in value)
    return value


def _shortened(path: str) -> str:
    for before, instead in _KEPT:
        if before.search(path):
            return before.sub(instead, path, count=1).replace("\\", "/")
    parts = [part for part in re.split(r"[\\/]+", path) if part]
    if len(parts) < 2 or _SYSTEM.search(path):
        return path
    return f"<path>/{parts[-1]}"


def _is_path(value: str) -> bool:
    return re.match(r"(?:[A-Za-z]:)?[\\/]", value) is not None
