"""Earlier runs, kept as light as their use needs: when, on what, and which verdict each cell had."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from conformance.model.verdict import Verdict
from reports.matrix import Column, Matrix, Tally


@dataclasses.dataclass(frozen=True)
class Past:
    """One column of an earlier matrix.

    Attributes:
        series: what it has in common with the column of today (see `ColumnKey.series`).
        started: when its latest run started, UTC, ISO 8601.
        commit: the harness's commit; empty outside a checkout.
        verdicts: by cell id, for the cells in its plan.
    """

    series: str
    started: str
    commit: str
    verdicts: Mapping[str, Verdict]

    @property
    def tally(self) -> Tally:
        """How its verdicts are spread."""
        return Tally(Counter(self.verdicts.values()))


def past_of(matrix: Matrix) -> list[Past]:
    """The matrix's columns, so that the matrix itself can be forgotten."""
    return [
        Past(
            series=column.key.series,
            started=column.latest.started,
            commit=column.key.commit,
            verdicts={
                cell.id: slot.verdict for cell in matrix.cells if (slot := matrix.slot(cell, column)) is not None
            },
        )
        for column in matrix.columns
    ]


def of_column(column: Column, history: Iterable[Past]) -> Sequence[Past]:
    """The column's own past, oldest first; what is not older than the column is no past."""
    mine = (past for past in history if past.series == column.key.series and past.started < column.latest.started)
    return sorted(mine, key=lambda past: past.started)
