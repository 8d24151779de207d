"""Binding a check (a pytest function) to the scenarios whose observations it judges."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from conformance.model.setting import Axes, Observation, Setting

Scenario = Callable[[Setting], Observation]
Check = TypeVar("Check", bound=Callable[..., None])


@dataclasses.dataclass(frozen=True)
class Step:
    """One start of a rank set.

    Attributes:
        scenario: a module-level function that each rank calls.
        world: the number of ranks; None takes the cell's `world` axis, or 1.
        parameters: overlaid on the cell's axes.
        environment: variables to set, or with None to unset, over what the launcher sets.
        cold: ask for fresh interpreters even where ranks can be forked.
        launches: the number of ranks that the scenario itself starts, by a launcher that is a program of its own.
    """

    scenario: Scenario
    world: int | None = None
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    cold: bool = False
    launches: int = 0

    def ranks(self, axes: Axes) -> int:
        """How many ranks the step has, in a cell with these axes."""
        return self.world if self.world is not None else int(axes.get("world", 1))

    def devices(self, axes: Axes) -> int:
        """How many devices it takes, one a rank, in a cell with these axes."""
        return max(self.ranks(axes), self.launches)

    @property
    def scenario_name(self) -> str:
        """`module:function`, how ranks in other processes find the scenario."""
        return f"{self.scenario.__module__}:{self.scenario.__qualname__}"


Plan = Callable[[Axes], Sequence[Step]]


def case(scenario: Scenario | None = None, *, plan: Plan | None = None) -> Callable[[Check], Check]:
    """Mark a pytest function as the check of a case.

    Args:
        scenario: what each rank runs; the check then takes `observations`, one per rank.
        plan: for several steps, a pure function from axes to steps; the check then takes `steps`, a list of such lists.

    Raises:
        TypeError: neither or both were given.
    """
    if (scenario is None) == (plan is None):
        raise TypeError("case() takes either a scenario or plan=, not both")

    def one_step(_axes: Axes) -> Sequence[Step]:
        assert scenario is not None
        return [Step(scenario)]

    def mark(check: Check) -> Check:
        check.conformance_plan = plan or one_step  # type: ignore[attr-defined]
        return check

    return mark


def plan_of(check: Callable[..., Any]) -> Plan | None:
    """The plan that `case` attached, or None for a plain function."""
    plan: Plan | None = getattr(check, "conformance_plan", None)
    return plan
