"""From the selected cells to what a run will do, once: steps with their worlds, and all that they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from conformance.model.case import Case, Step
from conformance.model.cell import Cell
from conformance.model.planned_cell import Key, PlannedCell, PlannedStep
from conformance.model.verdict import NotRun
from conformance.run.cases import SuiteError, cases_of_suite, check_complete
from conformance.run.context import RunContext

EVERY_CASE = ("reference", "deepspeed")
"""The integrations that are driven through all cases; the others through core cases."""


def drives(integration: str, cell: Cell) -> bool:
    """Whether a cell is one for an integration. Pure."""
    if cell.integrations is not None:
        return integration in cell.integrations
    return cell.core or integration in EVERY_CASE


def to_do(cells: Iterable[Cell], integrations: Sequence[str], done: frozenset[Key]) -> list[tuple[Cell, str]]:
    """The cells that a run takes, each with the integration that it is driven through, suite by suite. Pure.

    Args:
        done: what an earlier run has answered.
    """
    pairs = [
        (cell, integration)
        for cell in cells
        for integration in integrations
        if drives(integration, cell) and (cell.id, integration) not in done
    ]
    places = {integration: place for place, integration in enumerate(integrations)}
    cases: dict[tuple[str, str], int] = {}
    for cell, _ in pairs:
        cases.setdefault((cell.suite, cell.case), len(cases))
    return sorted(pairs, key=lambda pair: (cases[pair[0].suite, pair[0].case], places[pair[1]]))


def plan_cells(pairs: Sequence[tuple[Cell, str]], context: RunContext, folder: Path) -> list[PlannedCell]:
    """What the run will do for each cell. Imports their suites, and starts nothing.

    Args:
        folder: where suites lie.

    Raises:
        MatrixError: the matrix and a suite do not know the same cases.
    """
    matrix = context.matrix
    cases: dict[str, Mapping[str, Case]] = {}
    problems: dict[str, str] = {}
    for suite in sorted({cell.suite for cell, _ in pairs}):
        try:
            cases[suite] = cases_of_suite(suite, folder)
        except SuiteError as error:
            problems[suite] = f"the suite cannot be imported:\n{error}"
            continue
        declared = (cell.case for cell in matrix.cells if cell.suite == suite)
        toml = matrix.folder / "suites" / f"{suite}.toml"
        check_complete(suite, declared, cases[suite], folder=folder, toml=toml)
    return [
        PlannedCell(cell, integration, problem=problems[cell.suite])
        if cell.suite in problems
        else plan_cell(cell, integration, cases[cell.suite][cell.case], context)
        for cell, integration in pairs
    ]


def plan_cell(cell: Cell, integration: str, case: Case, context: RunContext) -> PlannedCell:
    """What the run will do for one cell. Starts nothing; asks the host nothing but where bundles lie."""
    lane = context.lane
    needs = [f"os:{lane.os}", *lane.needs, *cell.needs]
    try:
        steps = case.steps(cell.axes, bundles=context.ground.bundles)
    except NotRun as lack:
        return PlannedCell(cell, integration, case, needs=tuple(needs), lack=lack)
    if context.device == "cuda" and steps:
        needs.append(f"gpus:{max(step.devices(cell.axes) for step in steps)}")
    return PlannedCell(cell, integration, case, tuple(_planned(step, cell, context) for step in steps), tuple(needs))


def _planned(step: Step, cell: Cell, context: RunContext) -> PlannedStep:
    return PlannedStep(
        scenario=step.scenario_name,
        world=step.ranks(cell.axes),
        parameters={**cell.axes, **step.parameters},
        environment=step.environment,
        cold=step.cold or context.cold,
    )
