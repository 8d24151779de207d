"""A rule: a normative sentence with an id and a source."""

from __future__ import annotations

from typing import Annotated

import pydantic

from conformance.model.record import Frozen, RuleText

RuleId = Annotated[str, pydantic.StringConstraints(pattern=r"^[A-Z]+-\d{2,3}$")]


class Rule(Frozen):
    id: RuleId
    text: str = pydantic.Field(min_length=1)
    source: str = pydantic.Field(min_length=1)

    def as_text(self) -> RuleText:
        """The rule as a record carries it."""
        return RuleText(id=self.id, text=self.text, source=self.source)


class RuleFile(Frozen):
    """matrices/rules/<area>.toml."""

    rule: tuple[Rule, ...] = pydantic.Field(min_length=1)


class Uncovered(Frozen):
    """A rule that no case checks, and why."""

    rule: RuleId
    reason: str = pydantic.Field(min_length=1)


class UncoveredFile(Frozen):
    """matrices/rules/uncovered.toml."""

    uncovered: tuple[Uncovered, ...] = ()
