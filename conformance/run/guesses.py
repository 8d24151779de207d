"""Known issues that no record could bear out: written down from reading, or for hosts that have never reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from conformance.matrix.known_issue import KnownIssue
from conformance.matrix.lane import Lane
from conformance.model.cell import Cell, matches
from conformance.model.record import Record
from conformance.model.verdict import Verdict


@dataclasses.dataclass(frozen=True)
class Guess:
    """An entry of which no record speaks, and what there is no record of."""

    issue: str
    lacks: str

    def __str__(self) -> str:
        return f"issue {self.issue!r}: guess: no record of {self.lacks}"


def guesses(
    issues: Sequence[KnownIssue], cells: Mapping[str, Cell], lanes: Iterable[Lane], records: Iterable[Record]
) -> list[Guess]:
    """The entries that are guesses. Pure.

    Args:
        cells: by id; records of other cells are passed over.
        lanes: all of the matrix.
        records: those that did not run say nothing.
    """
    told = [record for record in records if record.cell in cells and record.verdict.ran]
    found = ((issue, _lacks(issue, cells, list(lanes), told)) for issue in issues)
    return [Guess(issue.id, lacks) for issue, lacks in found if lacks]


def _lacks(issue: KnownIssue, cells: Mapping[str, Cell], lanes: Sequence[Lane], records: Sequence[Record]) -> str:
    """What there is no record of; empty where a record speaks of the issue, or has been explained by it."""
    if any(
        record.verdict is Verdict.XFAIL and record.known_issue is not None and record.known_issue.id == issue.id
        for record in records
    ):
        return ""
    own = [cell for cell in cells.values() if any(matches(glob, cell.id) for glob in issue.cells)]
    asked = [
        lane.name
        for lane in lanes
        if any(matches(glob, lane.name) for glob in issue.lanes)
        and any(cell.lanes is None or lane.name in cell.lanes for cell in own)
    ]
    if not any(record.lane in asked for record in records):
        return f"lane {' or '.join(asked)}"
    covered = [
        record
        for record in records
        if issue.covers(cells[record.cell], record.lane, record.transport, record.integration)
    ]
    if not covered:
        return "its cells there"
    there = [record for record in covered if issue.fits(record.provenance.host)]
    if not there:
        kind = {"any": [], "wine": ["Wine"], "native": ["no Wine"]}[issue.host]
        return f"its cells on a host with {', '.join([*kind, *map(str, issue.capabilities)])}"
    if not any(issue.applies(record.provenance.packages, record.provenance.host) for record in there):
        return f"its cells with {', '.join(f'{name} {wanted}' for name, wanted in issue.versions.items())}"
    return ""
