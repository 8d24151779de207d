"""A stack: a set of pinned versions."""

from __future__ import annotations

from typing import Annotated

import pydantic
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from conformance.matrix.suite import Name
from conformance.records import Frozen


def _version(value: str) -> str:
    try:
        Version(value)
    except InvalidVersion:
        raise ValueError("an exact version such as '2.13.0'") from None
    return value


def _specifier(value: str) -> str:
    try:
        SpecifierSet(value)
    except InvalidSpecifier:
        raise ValueError("a version specifier such as '>=3.11,<3.14'") from None
    return value


ExactVersion = Annotated[str, pydantic.AfterValidator(_version)]
Specifier = Annotated[str, pydantic.AfterValidator(_specifier)]


class StackHead(Frozen):
    name: Name
    title: str = pydantic.Field(min_length=1)
    python: Specifier


class StackFile(Frozen):
    """matrices/stacks/<name>.toml."""

    stack: StackHead
    packages: dict[str, ExactVersion] = pydantic.Field(min_length=1)
    groups: dict[str, dict[str, ExactVersion]] = pydantic.Field(default_factory=dict)
