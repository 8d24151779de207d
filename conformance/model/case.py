"""Binding a check to the case that it answers and to the scenarios whose observations it judges."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from conformance.model.setting import Axes, Observation, Setting

Scenario = Callable[[Setting], Observation]
Check = Callable[..., None]
Marked = TypeVar("Marked", bound=Check)
Plan = Callable[..., Sequence["Step"]]
"""From axes to steps, without a look at the host. One that hands checkpoints between lanes takes `bundles` too."""

ID = re.compile(r"(?P<suite>[a-z][a-z0-9_]*)/(?P<name>[a-z][a-z0-9_]*)")


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


@dataclasses.dataclass(frozen=True)
class Case:
    """What a suite's module says of one case of the matrix.

    Attributes:
        check: raises AssertionError unless what the ranks saw is right.
        plan: what is run.
    """

    suite: str
    name: str
    check: Check
    plan: Plan

    @property
    def id(self) -> str:
        """`suite/name`, as in the ids of its cells."""
        return f"{self.suite}/{self.name}"

    def steps(self, axes: Axes, **offered: object) -> Sequence[Step]:
        """The steps of a cell with these axes; of what is `offered` the plan gets what it takes."""
        taken = inspect.signature(self.plan).parameters
        return self.plan(axes, **{name: value for name, value in offered.items() if name in taken})


def case(id: str, scenario: Scenario | None = None, *, plan: Plan | None = None) -> Callable[[Marked], Marked]:
    """Mark a function as the check of a case.

    Args:
        id: `suite/name`, as matrices/suites/SUITE.toml declares it.
        scenario: what each rank runs; the check then takes `observations`, one per rank.
        plan: for several steps, a pure function from axes to steps; the check then takes `steps`, a list of such lists.

    Raises:
        TypeError: neither or both were given.
        ValueError: `id` is not of that form.
    """
    if (scenario is None) == (plan is None):
        raise TypeError("case() takes either a scenario or plan=, not both")
    form = ID.fullmatch(id)
    if form is None:
        raise ValueError(f"case: found {id!r}, expected 'suite/name' in lower case, such as 'zero/train'")

    def one_step(_axes: Axes) -> Sequence[Step]:
        assert scenario is not None
        return [Step(scenario)]

    def mark(check: Marked) -> Marked:
        check.conformance_case = Case(form["suite"], form["name"], check, plan or one_step)  # type: ignore[attr-defined]
        return check

    return mark


def case_of(check: object) -> Case | None:
    """What `case` attached, or None for anything else."""
    found = getattr(check, "conformance_case", None)
    return found if isinstance(found, Case) else None
