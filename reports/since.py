"""With which releases of DeepSpeed a cell works: its verdicts on stacks that differ in nothing else, oldest first."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from packaging.version import InvalidVersion, Version

from conformance.model.record import KnownIssueText
from conformance.model.verdict import HOLDS, UNEXPECTED, Verdict
from reports.matrix import Cell, Column, Matrix, Slot

PACKAGE: Final = "deepspeed"
FAILS: Final = (UNEXPECTED - {Verdict.XPASS}) | {Verdict.XFAIL}
"""A failure that is understood is a failure of that release all the same. XPASS contradicts its entry, and tells of no
release before the entry is mended."""


class State(NamedTuple):
    """What a cell came to with one release."""

    version: str
    holds: bool
    slot: Slot


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
class Step:
    """Cells that changed for one cause between two neighbouring releases that were tried.

    Attributes:
        label: the series'.
        before, after: the two releases.
        worse: whether the later one is the worse one.
        issue: the known issue behind the failures; None where none explains them.
        reason: why the first of the cells fails.
        cells: those that changed.
        columns: where to look: the newest of each release.
    """

    label: str
    before: str
    after: str
    worse: bool
    issue: KnownIssueText | None
    reason: str
    cells: tuple[Cell, ...]
    columns: tuple[Column, Column]

    @property
    def cases(self) -> tuple[str, ...]:
        """The cells' cases."""
        return tuple(dict.fromkeys(f"{cell.suite}/{cell.case}" for cell in self.cells))


@dataclasses.dataclass(frozen=True)
class Steps:
    """What all series tell.

    Attributes:
        steps: the newest release first, what got worse before what got better, the most cells first.
        compared: how many cells were tried with two releases or more.
        steady: how many of them came to the same with all of these.
        releases: all that were tried, oldest first.
    """

    steps: tuple[Step, ...]
    compared: int
    steady: int
    releases: tuple[str, ...]


def since(states: Sequence[tuple[str, bool]]) -> str:
    """One plain line: `works with X and Y, fails with Z`. It names the releases that were tried, and no other. Pure.

    Args:
        states: versions, oldest first, and whether it works with each. Empty for a cell that never ran.
    """
    if not states:
        return "not tested with any release"
    parts = []
    for works, some in itertools.groupby(states, key=lambda state: state[1]):
        parts.append(f"{'works' if works else 'fails'} with {_listed([version for version, _ in some])}")
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


def states_of(matrix: Matrix, series: Series, cell: Cell) -> list[State]:
    """What the cell came to with each release that says something; of several columns of one, a failure counts."""
    states = []
    for version, columns in series.columns.items():
        found = [slot for column in columns if (slot := matrix.slot(cell, column)) is not None]
        fails = next((slot for slot in found if slot.verdict in FAILS), None)
        holds = next((slot for slot in found if slot.verdict in HOLDS), None)
        if fails or holds:
            states.append(State(version, fails is None, fails or holds))  # type: ignore[arg-type]
    return states


def line_of(matrix: Matrix, series: Series, cell: Cell) -> str:
    """What a series says of a cell; empty where it was tested with fewer than two versions."""
    states = states_of(matrix, series, cell)
    return since([(state.version, state.holds) for state in states]) if len(states) > 1 else ""


def steps(matrix: Matrix) -> Steps:
    """What changed with a release, one entry a cause, over all series."""
    found: dict[tuple[int, str, str, bool, str], list[tuple[Cell, Slot]]] = defaultdict(list)
    series = series_of(matrix)
    compared = steady = 0
    for number, one in enumerate(series):
        for cell in matrix.cells:
            states = states_of(matrix, one, cell)
            if len(states) < 2:
                continue
            compared += 1
            changes = [(old, new) for old, new in itertools.pairwise(states) if old.holds is not new.holds]
            steady += not changes
            for old, new in changes:
                failing = old.slot if new.holds else new.slot
                issue = failing.record.known_issue if failing.record else None
                cause = issue.id if issue else f"{cell.suite}/{cell.case}: {failing.reason}"
                found[number, old.version, new.version, old.holds, cause].append((cell, failing))
    told = [
        Step(
            label=series[number].label,
            before=before,
            after=after,
            worse=worse,
            issue=cells[0][1].record.known_issue if cells[0][1].record else None,
            reason=cells[0][1].reason,
            cells=tuple(cell for cell, _ in cells),
            columns=(series[number].columns[before][-1], series[number].columns[after][-1]),
        )
        for (number, before, after, worse, _), cells in found.items()
    ]
    told.sort(key=lambda step: (Version(step.after), step.worse, len(step.cells)), reverse=True)
    releases = _ordered({version for one in series for version in one.columns})
    return Steps(tuple(told), compared, steady, tuple(releases))


_PARTS: Final = 7


def _common(column: Column) -> tuple[str, ...]:
    key = column.key
    torch = column.latest.packages.get("torch", "").partition("+")[0]
    mpi, wine = key.mpi.rpartition(" ")[0], "Wine" if key.wine else ""
    return (key.lane, key.transport, key.integration, mpi, wine, key.emulated, f"torch {torch}" if torch else "")


def _ordered(versions: Iterable[str]) -> list[str]:
    """Versions oldest first; what is no version left out."""
    known = []
    for version in versions:
        try:
            known.append((Version(version), version))
        except InvalidVersion:
            continue
    return [version for _, version in sorted(known)]


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
