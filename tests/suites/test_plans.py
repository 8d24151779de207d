"""Plans of all cases: called far ahead of their cell, in a process that knows nothing of the cell's needs."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

from conformance import suites
from conformance.matrix import load_matrix
from conformance.model.case import plan_of
from conformance.model.verdict import NotRun

SUITES = Path(suites.__file__).parent


def test_the_plan_of_every_cell_gives_steps_or_says_what_is_lacking() -> None:
    checks = {}
    for file in sorted(SUITES.glob("test_*.py")):
        module = importlib.import_module(f"conformance.suites.{file.stem}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and (plan := plan_of(function)) is not None:
                checks[file.stem.removeprefix("test_"), name.removeprefix("test_")] = plan
    cells = load_matrix().cells
    assert {(cell.suite, cell.case) for cell in cells} <= checks.keys()
    for cell in cells:
        try:
            steps = checks[cell.suite, cell.case](cell.axes)
        except NotRun:
            continue
        assert steps, f"{cell.id}: a plan without steps"
