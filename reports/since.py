"""Since when a cell works: its verdicts on stacks that differ in DeepSpeed, oldest first, as one plain line."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from packaging.version import InvalidVersion, Version

from conformance.model.verdict import Verdict
from reports.matrix import Cell, Column, Matrix

PACKAGE = "deepspeed"
GOOD = frozenset({Verdict.PASS, Verdict.UNSUPPORTED, Verdict.XPASS})
BAD = frozenset({Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.XFAIL})
"""A failure that is understood is a failure of that version all the same."""


@dataclasses.dataclass(frozen=True)
class Series:
    """Columns that differ in nothing but the version of DeepSpeed, and so can be read as its history.

    Attributes:
        label: what they have in common, as far as a reader must tell it from other series.
        columns: by version, oldest first; several where several stacks have the same.
    """

    label: str
    columns: Mapping[str, tuple[Column, ...]]


@dataclasses.dataclass(frozen=True)
class CaseLine:
    """What a series says of a case.

    Attributes:
        suite, case: its name.
        label: the series'.
        lines: a plain line, and how many of the case's cells it is true of; the most cells first.
    """

    suite: str
    case: str
    label: str
    lines: tuple[tuple[str, int], ...]

    @property
    def changed(self) -> bool:
        """Whether a cell of the case changed with a version."""
        return any(" since " in line or "fixed in" in line for line, _ in self.lines)


def since(states: Sequence[tuple[str, bool]]) -> str:
    """One plain line: `works since X`, `broken since X`, `broken since X, fixed in Y`. Pure.

    Args:
        states: versions, oldest first, and whether it works with each. Empty for a cell that never ran.
    """
    if not states:
        return "not tested with any version"
    first, last = states[0][0], states[-1][0]
    tested = f"the one version tested, {first}" if len(states) == 1 else f"every version tested, {first} to {last}"
    parts: list[str] = []
    for (_, before), (version, works) in itertools.pairwise(states):
        if works and not before:
            parts.append(f"fixed in {version}" if parts else f"works since {version}")
        elif before and not works:
            parts.append(f"broken since {version}")
    if not parts:
        return f"works in {tested}" if states[0][1] else f"broken in {tested}"
    return ", ".join(parts)


def series_of(matrix: Matrix) -> list[Series]:
    """The series of a matrix that hold two versions of DeepSpeed or more."""
    groups: dict[tuple[str, ...], dict[str, list[Column]]] = defaultdict(lambda: defaultdict(list))
    for column in matrix.columns:
        version = column.latest.packages.get(PACKAGE, "")
        if _ordered([version]):
            groups[_common(column)][version].append(column)
    several = {common: by_version for common, by_version in groups.items() if len(by_version) > 1}
    telling = [place for place in range(_PARTS) if len({common[place] for common in several}) > 1]
    return [
        Series(
            label=" · ".join(common[place] for place in telling if common[place]),
            columns={version: tuple(by_version[version]) for version in _ordered(by_version)},
        )
        for common, by_version in several.items()
    ]


def line_of(matrix: Matrix, series: Series, cell: Cell) -> str:
    """What a series says of a cell; empty where it was tested with fewer than two versions."""
    states = []
    for version, columns in series.columns.items():
        found = {slot.verdict for column in columns if (slot := matrix.slot(cell, column)) is not None}
        if found & BAD:
            states.append((version, False))
        elif found & GOOD:
            states.append((version, True))
    return since(states) if len(states) > 1 else ""


def case_lines(matrix: Matrix) -> list[CaseLine]:
    """What every series says of every case, in the matrix's order; cases that no series tells of are left out."""
    found = []
    for series in series_of(matrix):
        counts: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for cell in matrix.cells:
            line = line_of(matrix, series, cell)
            if line:
                counts[cell.suite, cell.case][line] += 1
        for (suite, case), lines in counts.items():
            ranked = tuple(sorted(lines.items(), key=lambda item: (-item[1], item[0])))
            found.append(CaseLine(suite, case, series.label, ranked))
    return found


_PARTS = 6


def _common(column: Column) -> tuple[str, ...]:
    key = column.key
    torch = column.latest.packages.get("torch", "").partition("+")[0]
    mpi, wine = key.mpi.rpartition(" ")[0], "Wine" if key.wine else ""
    return (key.lane, key.transport, key.integration, mpi, wine, f"torch {torch}" if torch else "")


def _ordered(versions: Iterable[str]) -> list[str]:
    """Versions oldest first; what is no version left out."""
    known = []
    for version in versions:
        try:
            known.append((Version(version), version))
        except InvalidVersion:
            continue
    return [version for _, version in sorted(known)]
