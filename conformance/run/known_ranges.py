"""Known issues against records of several stacks: do the versions that an entry names show it, and no others?"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from conformance.matrix.known_issue import ABSENT, KnownIssue
from conformance.model.cell import Cell
from conformance.model.record import Record
from conformance.model.verdict import MAY_BE_KNOWN, Verdict

USUAL = "deepspeed"
"""The package that an entry is about where it names none that differs between the records."""


@dataclasses.dataclass(frozen=True)
class Contradiction:
    """An entry whose versions are not those that records show.

    Attributes:
        issue: the entry's id.
        package: whose versions are wrong.
        found: the specifier that the entry has; empty for none.
        expected: one that the records bear out; empty where no single range does.
        evidence: the records that contradict, in words, one a version.
    """

    issue: str
    package: str
    found: str
    expected: str
    evidence: tuple[str, ...]

    def __str__(self) -> str:
        found = f'{self.package} = "{self.found}"' if self.found else f"no versions of {self.package}"
        remedy = (
            f'expected {self.package} = "{self.expected}"'
            if self.expected
            else "and no one range is right: split the entry, or delete it"
        )
        return f"issue {self.issue!r}: versions: found {found}, {remedy}. {'; '.join(self.evidence)}"


def contradictions(
    issues: Sequence[KnownIssue], cells: Mapping[str, Cell], records: Iterable[Record]
) -> list[Contradiction]:
    """The entries that records contradict. Pure.

    Args:
        cells: by id; records of other cells are passed over.
        records: of any stacks; those that did not run say nothing.
    """
    told = [record for record in records if record.cell in cells and record.verdict.ran]
    found = (_contradiction(issue, cells, told) for issue in issues)
    return [each for each in found if each is not None]


def _contradiction(issue: KnownIssue, cells: Mapping[str, Cell], records: Sequence[Record]) -> Contradiction | None:
    seen: dict[bool, list[Record]] = defaultdict(list)
    for record in records:
        where = (record.lane, record.transport, record.integration)
        covered = issue.covers(cells[record.cell], *where) and issue.fits(record.provenance.host)
        shows = _shows(issue, record) if covered else None
        if shows is not None:
            seen[shows].append(record)
    wrong = [
        record
        for shows, some in seen.items()
        for record in some
        if shows is not issue.applies(record.provenance.packages, record.provenance.host)
    ]
    if not wrong:
        return None
    package = _package(issue, [*seen[True], *seen[False]])
    yes, no = _versions(seen[True], package), _versions(seen[False], package)
    specifier = issue.versions.get(package, "")
    evidence = {
        version: f"{record.cell} on {record.lane} with {package} {version}: {record.verdict}"
        for record in wrong
        if (version := _version(record, package)) is not None
    }
    return Contradiction(
        issue=issue.id,
        package=package,
        found=specifier,
        expected=_range(specifier, yes, no),
        evidence=tuple(evidence[version] for version in sorted(evidence)),
    )


_DEEPSPEEDS = frozenset({"reference", "deepspeed"})
"""Integrations that refuse nothing of their own."""


def _shows(issue: KnownIssue, record: Record) -> bool | None:
    """Whether a record shows the issue; None where it failed in some other way, was refused, or won a race."""
    if record.known_issue is not None and record.verdict is Verdict.XFAIL:
        return True if record.known_issue.id == issue.id else None
    if record.verdict in MAY_BE_KNOWN:
        return True if record.verdict.value in issue.expect and re.search(issue.match, record.reason) else None
    # An integration of others may refuse the ground; DeepSpeed's own refusal answers the case's question.
    refused = record.verdict is Verdict.UNSUPPORTED and record.integration not in _DEEPSPEEDS
    return None if issue.intermittent or refused else False


def _package(issue: KnownIssue, records: Sequence[Record]) -> str:
    """The package to blame: one that the entry names and that differs between the records, DeepSpeed otherwise."""
    named = [name for name, wanted in issue.versions.items() if wanted != ABSENT and len(_versions(records, name)) > 1]
    return USUAL if USUAL in named or not named else named[0]


def _version(record: Record, package: str) -> Version | None:
    try:
        return Version(Version(record.provenance.packages[package]).public)
    except (KeyError, InvalidVersion):
        return None


def _versions(records: Sequence[Record], package: str) -> list[Version]:
    return sorted({version for record in records if (version := _version(record, package)) is not None})


def _range(specifier: str, yes: Sequence[Version], no: Sequence[Version]) -> str:
    """A specifier that holds for all of `yes` and none of `no`, with the bounds of the old one that are not wrong.

    Empty where there is none: a version between two that show the issue does not, or nothing is left of the range.
    """
    parts = [str(part) for part in SpecifierSet(specifier)]
    lower = next((part for part in parts if part.startswith(">")), "")
    upper = next((part for part in parts if part.startswith("<")), "")
    if not yes:
        left = not lower or Version(lower.lstrip(">=")) < no[0]
        return ",".join(filter(None, (lower, f"<{no[0]}"))) if left else ""
    below = [version for version in no if version < yes[0]]
    above = [version for version in no if version > yes[-1]]
    if len(below) + len(above) < len(no):
        return ""
    if not _bears(lower, yes, below):
        lower = f">={yes[0]}"
    if not _bears(upper, yes, above):
        upper = f"<{above[0]}" if above else f"<{yes[-1].major}.{yes[-1].minor + 1}"
    return ",".join(filter(None, (lower, upper)))


def _bears(part: str, yes: Sequence[Version], no: Sequence[Version]) -> bool:
    holds = SpecifierSet(part, prereleases=True)
    return all(version in holds for version in yes) and not any(version in holds for version in no)
