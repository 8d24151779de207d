"""A cell as one run will take it: with its steps, and with all that they need."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from conformance.model.case import Case
from conformance.model.cell import Cell
from conformance.model.verdict import NotRun

DEFAULT_INTEGRATION = "reference"

Key = tuple[str, str]
"""A cell's id and the integration that it is driven through."""


@dataclasses.dataclass(frozen=True)
class PlannedStep:
    """One start of a rank set, with nothing left open.

    Attributes:
        scenario: `module:function`.
        world: the number of ranks.
        parameters: the cell's axes, overlaid with the step's own.
        environment: variables to set, or with None to unset, over what the launcher sets.
        cold: ask for fresh interpreters even where ranks can be forked.
    """

    scenario: str
    world: int
    parameters: Mapping[str, Any]
    environment: Mapping[str, str | None]
    cold: bool


@dataclasses.dataclass(frozen=True)
class PlannedCell:
    """What a run will do for one cell and one integration, made once.

    Attributes:
        case: None where its suite could not be read: `problem` says why.
        steps: none where the cell cannot be run.
        needs: names of the probes that must hold, those of lane, cell and steps.
        lack: what planning found to be missing.
        problem: why the harness cannot run it; empty if it can.
    """

    cell: Cell
    integration: str
    case: Case | None = None
    steps: tuple[PlannedStep, ...] = ()
    needs: tuple[str, ...] = ()
    lack: NotRun | None = None
    problem: str = ""

    @property
    def key(self) -> Key:
        """What makes it one of a run's cells."""
        return self.cell.id, self.integration

    @property
    def name(self) -> str:
        """The name of its item: the id, with `@INTEGRATION` behind it where that is not the default."""
        return self.cell.id if self.integration == DEFAULT_INTEGRATION else f"{self.cell.id}@{self.integration}"

    @property
    def worlds(self) -> tuple[int, ...]:
        """The sizes of the rank sets that its steps will take from the pool's reserve, in order."""
        return tuple(step.world for step in self.steps if not step.cold)
