"""Which cells a run takes, from what the user asked for."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from conformance.matrix import Matrix, MatrixError
from conformance.matrix.lane import Lane
from conformance.model.cell import Cell, matches, shard

PROFILES = ("smoke", "cases", "full")
"""`cases`: the smoke cells, and of every case that has none the cell in the middle, so that no case is missing."""


@dataclasses.dataclass(frozen=True)
class Selection:
    """What the user asked for.

    Attributes:
        suites: suite names; empty for all.
        globs: globs of cell ids; empty for all.
        profile: one of PROFILES.
        part: the shard, (index from 1, count).
        core: only cells that every integration is driven through.
    """

    suites: Sequence[str] = ()
    globs: Sequence[str] = ()
    profile: str = "full"
    part: tuple[int, int] = (1, 1)


def parse_shard(text: str) -> tuple[int, int]:
    """`2/4` as (2, 4).

    Raises:
        MatrixError: not of that form, or out of range.
    """
    form = re.fullmatch(r"(\d+)/(\d+)", text)
    if form is None or not 1 <= int(form[1]) <= int(form[2]):
        raise MatrixError(f"--shard: found {text!r}, expected I/N with 1 <= I <= N, such as 1/4")
    return int(form[1]), int(form[2])


def select(matrix: Matrix, lane: Lane, wanted: Selection) -> list[Cell]:
    """The cells of `matrix` for `lane` that `wanted` describes, in matrix order.

    Raises:
        MatrixError: an unknown suite, or a glob that matches no cell of the lane.
    """
    for suite in wanted.suites:
        if suite not in matrix.suites:
            raise MatrixError(f"--suite: found {suite!r}, expected one of {', '.join(matrix.suites)}")
    cells = [cell for cell in matrix.cells if cell.lanes is None or lane.name in cell.lanes]
    for glob in wanted.globs:
        if not any(matches(glob, cell.id) for cell in cells):
            raise MatrixError(f"--cell: {glob!r} matches no cell of lane {lane.name}; --list shows them all")
    short = _smoke(cells) if wanted.profile == "smoke" else _of_every_case(cells)
    chosen = [
        cell
        for cell in cells
        if (not wanted.suites or cell.suite in wanted.suites)
        and (not wanted.globs or any(matches(glob, cell.id) for glob in wanted.globs))
        and (wanted.profile == "full" or cell.id in short)
    ]
    index, count = wanted.part
    return chosen if count == 1 else shard(chosen, index, count, matrix.seconds)


def _smoke(cells: Sequence[Cell]) -> set[str]:
    return {cell.id for cell in cells if cell.smoke}


def _of_every_case(cells: Sequence[Cell]) -> set[str]:
    by_case: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_case.setdefault((cell.suite, cell.case), []).append(cell)
    some = (_smoke(of_case) or {of_case[len(of_case) // 2].id} for of_case in by_case.values())
    return set().union(*some)
