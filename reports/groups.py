"""Cells of one case that have the same verdict for the same reason, told as one, whichever lanes they are on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from conformance.model.record import KnownIssueText, Record
from conformance.model.verdict import Verdict
from reports.matrix import Cell, Column, ColumnKey, Matrix

NEEDS_A_LOOK = (Verdict.CRASH, Verdict.TIMEOUT, Verdict.FAIL, Verdict.XPASS, Verdict.ERROR)
NOT_TESTED = (Verdict.NOT_RUN, Verdict.NO_DATA)


@dataclasses.dataclass(frozen=True)
class Place:
    """The cells of a group in one column; at least one, in the order of the matrix."""

    column: Column
    cells: tuple[Cell, ...]


@dataclasses.dataclass(frozen=True)
class Group:
    """Some slots that tell the same.

    Attributes:
        suite, case, verdict, reason: what they have in common; suite and case are empty where cells were not tested,
            since the reason then has nothing to do with what they ask.
        places: where they are, in the order of the matrix.
        record: one of their records; None with NO_DATA.
    """

    suite: str
    case: str
    verdict: Verdict
    reason: str
    places: tuple[Place, ...]
    record: Record | None

    @property
    def count(self) -> int:
        """How many slots."""
        return sum(len(place.cells) for place in self.places)

    @property
    def known_issue(self) -> KnownIssueText | None:
        """The known issue, if one explains the verdict."""
        return self.record.known_issue if self.record else None

    @property
    def remedy(self) -> str:
        """What a user does about it; empty if nothing says."""
        return (self.record.remedy or "") if self.record else ""


class _Common(NamedTuple):
    suite: str
    case: str
    verdict: Verdict
    reason: str
    issue: str
    remedy: str


def groups(matrix: Matrix, verdicts: Sequence[Verdict]) -> list[Group]:
    """The groups that have one of the verdicts, in the order of `verdicts`, then the largest first."""
    found: dict[_Common, dict[ColumnKey, list[Cell]]] = {}
    records: dict[_Common, Record | None] = {}
    for column in matrix.columns:
        for cell in matrix.cells:
            slot = matrix.slot(cell, column)
            if slot is None or slot.verdict not in verdicts:
                continue
            issue = slot.record.known_issue.id if slot.record and slot.record.known_issue else ""
            suite, case = ("", "") if slot.verdict in NOT_TESTED else (cell.suite, cell.case)
            remedy = (slot.record.remedy or "") if slot.record else ""
            common = _Common(suite, case, slot.verdict, slot.reason, issue, remedy)
            found.setdefault(common, {}).setdefault(column.key, []).append(cell)
            records.setdefault(common, slot.record)
    result = [
        Group(
            suite=common.suite,
            case=common.case,
            verdict=common.verdict,
            reason=common.reason,
            places=tuple(
                Place(column, tuple(by_column[column.key])) for column in matrix.columns if column.key in by_column
            ),
            record=records[common],
        )
        for common, by_column in found.items()
    ]
    return sorted(result, key=lambda group: (verdicts.index(group.verdict), -group.count))
