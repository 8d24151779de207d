"""Cells: conformance questions with their axes filled in, and how they are named and chosen."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence

from conformance.model.capability import Condition
from conformance.model.setting import Axes, AxisValue


def axis_text(value: AxisValue) -> str:
    """An axis value as ids show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One case with its axes filled in; the same on every lane.

    Attributes:
        rules: ids of the rules that the case checks.
        deadline: seconds a step.
        needs: names of the probes that must hold.
        excluded_on: hosts that it is not asked on: conditions that all hold there, and the reason.
        lanes: the only lanes it is for; None for all.
        smoke: whether it belongs to the smoke profile.
        core: whether every integration is driven through it.
        integrations: the only integrations that it is for; None for all.
    """

    suite: str
    case: str
    axes: Axes
    title: str
    rules: tuple[str, ...]
    deadline: float
    needs: tuple[str, ...] = ()
    excluded_on: tuple[tuple[tuple[Condition, ...], str], ...] = ()
    lanes: tuple[str, ...] | None = None
    smoke: bool = False
    core: bool = False
    integrations: tuple[str, ...] | None = None

    @functools.cached_property
    def axes_text(self) -> str:
        """`stage=2,dtype=bf16,world=2`; empty without axes."""
        return ",".join(f"{axis}={axis_text(value)}" for axis, value in self.axes.items())

    @functools.cached_property
    def id(self) -> str:
        """For instance `checkpoint/resume[stage=2,dtype=bf16,world=2]`."""
        return f"{self.suite}/{self.case}" + (f"[{self.axes_text}]" if self.axes else "")


@functools.cache
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern), re.DOTALL)


def matches(glob: str, text: str) -> bool:
    """Whether `text` is what `glob` describes. Only `*` and `?` are special: brackets stand for themselves."""
    return _glob(glob).fullmatch(text) is not None


def shard(cells: Sequence[Cell], index: int, count: int, seconds: Mapping[str, float]) -> list[Cell]:
    """Part `index` (from 1) of `count` parts with about equal durations, in the order of `cells`.

    Longest first, each to the part with the least so far: the same on every machine that has the same `seconds`, which
    are by cell id. A cell without a known duration counts as the median of the known ones.
    """
    known = sorted(seconds[cell.id] for cell in cells if cell.id in seconds)
    usual = known[len(known) // 2] if known else 1.0
    loads = [0.0] * count
    mine: set[str] = set()
    for cell in sorted(cells, key=lambda cell: (-seconds.get(cell.id, usual), cell.id)):
        part = loads.index(min(loads))
        loads[part] += seconds.get(cell.id, usual)
        if part == index - 1:
            mine.add(cell.id)
    return [cell for cell in cells if cell.id in mine]
