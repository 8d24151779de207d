"""The command that repeats one cell."""

from __future__ import annotations

import shlex

from conformance.matrix.stack import DEFAULT_STACK
from conformance.model.planned_cell import DEFAULT_INTEGRATION, PlannedCell
from conformance.run.context import RunContext


def repeat_line(planned: PlannedCell, context: RunContext) -> str:
    """The command that repeats a cell with its integration. Pure."""
    lane = context.lane
    words = ["python", "-m", "nox", "-s", lane.name, "--"]
    if context.transport != lane.transports[0]:
        words += ["--transport", context.transport]
    if context.stack != DEFAULT_STACK:
        words += ["--stack", context.stack]
    if planned.integration != DEFAULT_INTEGRATION:
        words += ["--integration", planned.integration]
    # Double quotes work in sh, PowerShell and cmd alike; ids hold nothing that any of them would expand.
    return " ".join([*map(shlex.quote, words), "--cell", f'"{planned.cell.id}"'])
