"""What changed between two matrices."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

from conformance.model.verdict import HOLDS, worse
from reports.matrix import Column, Matrix, Slot


class Change(enum.StrEnum):
    """How a cell changed; the value is the word shown."""

    WORSE = "worse"
    """See `conformance.model.verdict.worse`."""
    LOST = "no longer tested"
    """It ran before and says nothing now (NOT_RUN, NO_DATA, ERROR)."""
    BETTER = "better"
    """It ran and was not as it should be; now it is."""
    TESTED = "tested now"
    """It said nothing before, and says something now."""
    NEW = "new"
    """Only the second matrix knows the cell."""
    GONE = "gone"
    """Only the first matrix knows the cell."""
    OTHER = "changed otherwise"


@dataclasses.dataclass(frozen=True)
class Difference:
    """One cell that changed.

    Attributes:
        change: how.
        column: the name of the column, the same in both matrices.
        cell: the cell's id.
        before, after: None where a matrix has no such cell.
    """

    change: Change
    column: str
    cell: str
    before: Slot | None
    after: Slot | None

    @property
    def regression(self) -> bool:
        """Whether it is a change for the worse."""
        return self.change is Change.WORSE


def compare(before: Matrix, after: Matrix) -> list[Difference]:
    """The cells that changed, column by column; columns meet whatever their commits.

    Where one side has a single column and the other too, they meet whatever they are called: two stacks, for instance.
    """
    first, second = _by_name(before), _by_name(after)
    if len(before.columns) == 1 and len(after.columns) == 1:
        name = _pair_name(before.columns[0], after.columns[0])
        first, second = {name: before.columns}, {name: after.columns}
    found = []
    for name in dict.fromkeys([*first, *second]):
        old = _slots(before, first.get(name, ()))
        new = _slots(after, second.get(name, ()))
        for cell in dict.fromkeys([*old, *new]):
            change = change_of(old.get(cell), new.get(cell))
            if change is not None:
                found.append(Difference(change, name, cell, old.get(cell), new.get(cell)))
    order = list(Change)
    return sorted(found, key=lambda difference: order.index(difference.change))


def change_of(before: Slot | None, after: Slot | None) -> Change | None:
    """How a cell changed; None where it did not."""
    if before is None or after is None:
        return None if before is after else Change.NEW if before is None else Change.GONE
    if before.verdict is after.verdict:
        return None
    old, new = before.verdict, after.verdict
    if worse(old, new):
        return Change.WORSE
    if old.ran and not new.ran:
        return Change.LOST
    if new.ran and not old.ran:
        return Change.TESTED
    return Change.BETTER if new in HOLDS and old not in HOLDS else Change.OTHER


def _by_name(matrix: Matrix) -> dict[str, tuple[Column, ...]]:
    names: dict[str, tuple[Column, ...]] = {}
    for column in matrix.columns:
        names[_name(column)] = (*names.get(_name(column), ()), column)
    return names


def _name(column: Column) -> str:
    return column.key.series.replace("~", " · ")


def _pair_name(before: Column, after: Column) -> str:
    return _name(after) if _name(before) == _name(after) else f"{_name(before)} → {_name(after)}"


def _slots(matrix: Matrix, columns: Iterable[Column]) -> Mapping[str, Slot]:
    """The newest column's slot of every cell."""
    slots: dict[str, Slot] = {}
    for column in sorted(columns, key=lambda column: column.latest.started):
        for cell in matrix.cells:
            slot = matrix.slot(cell, column)
            if slot is not None:
                slots[cell.id] = slot
    return slots
