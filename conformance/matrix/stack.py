"""A stack: a set of pinned versions."""

from __future__ import annotations

from typing import Annotated

import pydantic
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from conformance.model.record import Frozen


def _version(value: str) -> str:
    try:
        Version(value)
    except InvalidVersion:
        raise ValueError("an exact version such as '2.13.0'") from None
    return value


def specifier(value: str) -> str:
    """The text, which is a version specifier.

    Raises:
        ValueError: it is not.
    """
    try:
        SpecifierSet(value)
    except InvalidSpecifier:
        raise ValueError("a version specifier such as '>=3.11,<3.14'") from None
    return value


DEFAULT_STACK = "pinned"
"""What runs unless another is named."""

StackName = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z][a-z0-9_.-]*$")]
ExactVersion = Annotated[str, pydantic.AfterValidator(_version)]
Specifier = Annotated[str, pydantic.AfterValidator(specifier)]


class StackHead(Frozen):
    """What a stack says of itself.

    Attributes:
        python: for which Pythons it is; None for those of the stack that it is over.
        over: the stack from which this one has all that it does not pin itself.
        refused: why these versions cannot work together; a run with such a stack ends with this.
    """

    name: StackName
    title: str = pydantic.Field(min_length=1)
    python: Specifier | None = None
    over: StackName | None = None
    refused: str = ""

    @pydantic.model_validator(mode="after")
    def _for_some_python(self) -> StackHead:
        if self.python is None and self.over is None:
            raise ValueError("python, or over")
        return self


class StackFile(Frozen):
    """matrices/stacks/<name>.toml."""

    stack: StackHead
    packages: dict[str, ExactVersion] = pydantic.Field(min_length=1)
    groups: dict[str, dict[str, ExactVersion]] = pydantic.Field(default_factory=dict)

    def with_all_of(self, below: StackFile) -> StackFile:
        """This stack with the packages and groups of the one that it is over."""
        return self.model_copy(
            update={"packages": below.packages | self.packages, "groups": below.groups | self.groups}
        )
