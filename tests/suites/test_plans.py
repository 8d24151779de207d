"""Plans of all cases: called far ahead of their cell, in a process that knows nothing of the cell's needs."""

from __future__ import annotations

from conformance.hosts.bundles import Bundles
from conformance.matrix import load_matrix
from conformance.model.verdict import NotRun
from conformance.run.cases import SUITES, cases_of_suite, check_complete


def test_the_plan_of_every_cell_gives_steps_or_says_what_is_lacking() -> None:
    matrix = load_matrix()
    for suite in matrix.suites:
        cases = cases_of_suite(suite)
        cells = [cell for cell in matrix.cells if cell.suite == suite]
        check_complete(suite, (cell.case for cell in cells), cases, folder=SUITES, toml=matrix.folder / suite)
        for cell in cells:
            try:
                steps = cases[cell.case].steps(cell.axes, bundles=Bundles())
            except NotRun:
                continue
            assert steps, f"{cell.id}: a plan without steps"
