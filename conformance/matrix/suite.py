"""A suite: its cases, their axes, and what does not exist and why."""

from __future__ import annotations

import re
from typing import Annotated

import pydantic

from conformance.model.capability import Conditions, condition_of
from conformance.model.record import Frozen
from conformance.model.setting import Axes, AxisValue

NAME = re.compile(r"[a-z][a-z0-9_]*")
FORBIDDEN_IN_VALUE = set("[],=*?\"'") | {" "}


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError("a lower-case name such as 'train' or 'args_omitted'")
    return value


Name = Annotated[str, pydantic.AfterValidator(_name)]
Plain = pydantic.StrictStr | pydantic.StrictBool | pydantic.StrictInt | pydantic.StrictFloat
Where = dict[str, Plain | list[Plain]]


def holds(where: Where, axes: Axes) -> bool:
    """Whether every axis named in `where` has that value, or one of those values. An empty table holds always."""
    return all(
        axes[axis] in wanted if isinstance(wanted, list) else axes[axis] == wanted for axis, wanted in where.items()
    )


def _need(value: str) -> str:
    probe, _, argument = value.partition(":")
    if probe == CAN:
        condition_of(argument)
    return value


CAN = "can"
"""The probe of a capability, `can:fp16`."""

Need = Annotated[str, pydantic.AfterValidator(_need)]


class Exclusion(Frozen):
    """Combinations of axes that do not exist; with `capabilities`, only on hosts of which these conditions hold."""

    where: Where
    capabilities: Conditions = ()
    reason: str = pydantic.Field(min_length=1)


class Smoke(Frozen):
    """Cells that belong to the smoke profile."""

    where: Where = pydantic.Field(default_factory=dict)


class NeedsWhen(Frozen):
    """Probes that only some cells need."""

    where: Where
    needs: tuple[Need, ...] = pydantic.Field(min_length=1)


class CaseModel(Frozen):
    """One conformance question with its axes still open."""

    name: Name
    title: str = pydantic.Field(min_length=1)
    rules: tuple[str, ...] = pydantic.Field(min_length=1)
    deadline: float = pydantic.Field(default=60.0, gt=0, le=3600)
    """Seconds a step, from the moment ranks have the job."""
    needs: tuple[Need, ...] = ()
    lanes: tuple[str, ...] | None = None
    """Only these lanes; None means every lane."""
    core: bool = False
    """Belongs to the cells that every integration is driven through."""
    integrations: tuple[str, ...] | None = pydantic.Field(default=None, min_length=1)
    """Only these integrations; None means all that are driven through every case, and with `core` the others too."""
    axes: dict[Name, list[Plain]] = pydantic.Field(default_factory=dict)
    exclude: tuple[Exclusion, ...] = ()
    smoke: tuple[Smoke, ...] = ()
    needs_when: tuple[NeedsWhen, ...] = ()

    @pydantic.field_validator("axes")
    @classmethod
    def _axes(cls, axes: dict[str, list[AxisValue]]) -> dict[str, list[AxisValue]]:
        for axis, values in axes.items():
            if not values:
                raise ValueError(f"at least one value for axis {axis!r}")
            if len(set(map(str, values))) != len(values):
                raise ValueError(f"distinct values for axis {axis!r}")
            for value in values:
                if isinstance(value, str) and (not value or FORBIDDEN_IN_VALUE & set(value)):
                    raise ValueError(
                        f"values of axis {axis!r} without spaces, quotes and any of []=,*? (found {value!r})"
                    )
        return axes

    @pydantic.model_validator(mode="after")
    def _where_tables(self) -> CaseModel:
        for kind, tables in (("exclude", self.exclude), ("smoke", self.smoke), ("needs_when", self.needs_when)):
            for table in tables:
                for axis, wanted in table.where.items():
                    if axis not in self.axes:
                        raise ValueError(
                            f"axes of case {self.name!r} in {kind}.where: {', '.join(self.axes)} (found {axis!r})"
                        )
                    for value in wanted if isinstance(wanted, list) else [wanted]:
                        if value not in self.axes[axis]:
                            raise ValueError(f"one of {self.axes[axis]} for {axis!r} in {kind}.where (found {value!r})")
        return self


class SuiteHead(Frozen):
    name: Name
    title: str = pydantic.Field(min_length=1)


class SuiteFile(Frozen):
    """matrices/suites/<name>.toml."""

    suite: SuiteHead
    case: tuple[CaseModel, ...] = pydantic.Field(min_length=1)

    @pydantic.model_validator(mode="after")
    def _distinct(self) -> SuiteFile:
        names = [case.name for case in self.case]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"distinct case names (found twice: {', '.join(twice)})")
        return self
