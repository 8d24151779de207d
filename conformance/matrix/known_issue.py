"""A known issue: an expected non-pass, with the upstream report that explains it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Annotated, Literal

import pydantic
from packaging.specifiers import SpecifierSet

from conformance.matrix.stack import specifier
from conformance.model.capability import Conditions
from conformance.model.cell import Cell, matches
from conformance.model.record import Frozen, Host, KnownIssueText


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return value


ABSENT = "absent"
"""In place of a version: the package is not installed."""


def _specifier(value: str) -> str:
    return value if value == ABSENT else specifier(value)


Fault = Literal["deepspeed", "torch", "lightning", "accelerate", "transformers", "mpi", "platform", "wine"]
Area = Literal["start", "train", "checkpoint", "offload", "collectives", "trainer"]


class KnownIssue(Frozen):
    """One entry of matrices/known_issues.toml.

    Attributes:
        fault: in whose code it is to be mended; `platform` is the operating system.
        area: what a user was doing; `trainer` is what only a trainer's own code does.
        workaround: what a user does instead, in one short sentence.
        cells: globs of cell ids; an entry that matches no cell is an error.
        lanes: globs of lane names.
        transports: globs of transports: several lanes may run on one.
        integrations: globs of integration names.
        versions: for which package versions, a specifier a distribution, or `absent`; every one must hold.
        capabilities: what the host must be able to do, or not; every condition must hold, and none holds of what is not
            known.
        host: `any`, `wine` (only under Wine) or `native` (never under Wine).
        expect: the verdicts that this issue explains.
        match: a regular expression found in the reason.
        intermittent: whether it is a race, so that a cell that passes does not contradict the entry.
        reference: the upstream address, or `not reported`.
        review: the day from which the entry wants a fresh look.
    """

    id: Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    title: str = pydantic.Field(min_length=1)
    fault: Fault
    area: Area
    workaround: Annotated[str, pydantic.StringConstraints(min_length=1, max_length=160, pattern=r"\.$")]
    cells: tuple[str, ...] = pydantic.Field(min_length=1)
    lanes: tuple[str, ...] = ("*",)
    transports: tuple[str, ...] = ("*",)
    integrations: tuple[str, ...] = ("*",)
    versions: dict[str, Annotated[str, pydantic.AfterValidator(_specifier)]] = pydantic.Field(default_factory=dict)
    capabilities: Conditions = ()
    host: Literal["any", "wine", "native"] = "any"
    expect: tuple[Literal["FAIL", "CRASH", "TIMEOUT"], ...] = pydantic.Field(min_length=1)
    match: Annotated[str, pydantic.AfterValidator(_pattern)] = pydantic.Field(min_length=1)
    intermittent: bool = False
    reference: str = pydantic.Field(min_length=1)
    explanation: str = pydantic.Field(min_length=1)
    review: datetime.date

    @pydantic.field_validator("expect", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    def names(self, cell: Cell) -> bool:
        """Whether the entry speaks of this cell, wherever it runs."""
        return any(matches(glob, cell.id) for glob in self.cells)

    def covers(self, cell: Cell, lane: str, transport: str, integration: str) -> bool:
        """Whether the entry speaks of this cell run so, whatever the versions."""
        return (
            self.names(cell)
            and any(matches(glob, lane) for glob in self.lanes)
            and any(matches(glob, transport) for glob in self.transports)
            and any(matches(glob, integration) for glob in self.integrations)
        )

    def applies(self, versions: Mapping[str, str], host: Host) -> bool:
        """Whether the installed `versions` (by distribution name) and the host are those that the entry speaks of."""
        return self.fits(host) and all(
            name not in versions
            if wanted == ABSENT
            else name in versions and SpecifierSet(wanted).contains(versions[name], prereleases=True)
            for name, wanted in self.versions.items()
        )

    def fits(self, host: Host) -> bool:
        """Whether the host is one that the entry speaks of."""
        kind = "native" if host.wine is None else "wine"
        return self.host in ("any", kind) and all(condition.holds(host.capabilities) for condition in self.capabilities)

    def as_text(self) -> KnownIssueText:
        """The entry as a record carries it."""
        fields = ("id", "title", "reference", "explanation", "workaround", "fault", "area")
        return KnownIssueText(**{name: getattr(self, name) for name in fields})


class KnownIssueFile(Frozen):
    """matrices/known_issues.toml."""

    issue: tuple[KnownIssue, ...] = ()
