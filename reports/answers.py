"""Plain answers to the questions that a visitor comes with: `does ZeRO 3 with CPU offload work there?`"""

from __future__ import annotations

import dataclasses
import enum
import functools
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pydantic

from conformance.model.cell import matches
from conformance.model.record import Frozen
from conformance.model.verdict import Verdict
from reports.matrix import UNTESTED, AxisValue, Cell, Column, Matrix, Slot, Tally

HEADLINES = Path(__file__).with_name("headlines.toml")


class Answer(enum.StrEnum):
    """What a visitor reads; the value is the text shown."""

    WORKS = "works"
    CATCH = "works with a catch"
    REFUSED = "refused"
    BROKEN = "broken"
    UNTESTED = "not tested here"


MEANING = {
    Answer.WORKS: "Something was tested, and all of it passed.",
    Answer.CATCH: "At least half of what was tested passed; the rest failed, or was refused as the contract says.",
    Answer.REFUSED: "What ran was refused as the contract says; nothing else was tested.",
    Answer.BROKEN: "Less than half of what was tested passed.",
    Answer.UNTESTED: "Nothing ran: the host lacks something, the lane never reported, or it has no such cell.",
}


class CellChoice(Frozen):
    """Which cells a headline speaks of."""

    suite: str
    case: str = "*"
    axes: dict[str, str | int | float | bool] = pydantic.Field(default_factory=dict)
    says: tuple[str, ...] = ()

    def holds(self, cell: Cell) -> bool:
        """Whether the cell is one of them."""
        if cell.suite != self.suite or not matches(self.case, cell.case):
            return False
        if any(cell.axes.get(axis) != value for axis, value in self.axes.items()):
            return False
        words = {*cell.case.split("_"), *(str(value) for value in cell.axes.values())}
        return not self.says or not words.isdisjoint(self.says)


class Headline(Frozen):
    """One question of the first screen."""

    name: str
    title: str
    cells: tuple[CellChoice, ...]

    def chosen(self, matrix: Matrix) -> list[Cell]:
        """The matrix's cells that answer it."""
        return [cell for cell in matrix.cells if any(choice.holds(cell) for choice in self.cells)]


class HeadlineGroup(Frozen):
    """Headlines that belong together."""

    headlines: tuple[Headline, ...]


class _HeadlineFile(Frozen):
    group: tuple[HeadlineGroup, ...]


@dataclasses.dataclass(frozen=True)
class Answered:
    """One column's answer to one headline.

    Attributes:
        answer: the plain answer.
        tally: the verdicts that it rests on.
        catch: what does not pass, in a few words; empty where all does.
    """

    answer: Answer
    tally: Tally
    catch: str

    @property
    def detail(self) -> str:
        """`7 of 8 pass; bf16 fails; 2 not tested`: what the answer rests on."""
        tested, untested = self.tally.tested, self.tally.untested
        parts = []
        if tested:
            parts.append(f"{self.tally[Verdict.PASS]:,} of {tested:,} pass")
        if self.catch:
            parts.append(self.catch)
        if untested:
            parts.append(f"{untested:,} not tested")
        return "; ".join(parts)


@functools.cache
def headline_groups() -> tuple[HeadlineGroup, ...]:
    """The first screen's questions, from `headlines.toml`."""
    return _HeadlineFile.model_validate(tomllib.loads(HEADLINES.read_text(encoding="utf-8"))).group


def answer(matrix: Matrix, column: Column, cells: Sequence[Cell]) -> Answered:
    """The plain answer that the cells' verdicts in one column come to."""
    held = [(cell, slot) for cell in cells if (slot := matrix.slot(cell, column)) is not None]
    tally = Tally(Counter(slot.verdict for _, slot in held))
    catches = [text for verdicts, words in _CATCHES if (text := _catch(held, verdicts, *words))]
    return Answered(_answer(tally), tally, "; ".join(catches))


_CATCHES = (
    (frozenset({Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT}), ("{} failing", "{} failing", "{} failing")),
    (frozenset({Verdict.XFAIL}), ("{}: known issue", "{} known issue", "{} known issues")),
    (frozenset({Verdict.XPASS}), ("{}: known issue gone", "{} known issue gone", "{} known issues gone")),
    (frozenset({Verdict.UNSUPPORTED}), ("{} refused", "{} refused", "{} refused")),
)
"""For what makes a catch: the words with an axis value, for one cell, and for more."""


def _answer(tally: Tally) -> Answer:
    if tally.tested == 0:
        return Answer.REFUSED if tally.refused else Answer.UNTESTED
    good = tally[Verdict.PASS] + tally[Verdict.XPASS]
    if good == 0 or 2 * good < tally.tested:
        return Answer.BROKEN
    return Answer.WORKS if tally[Verdict.PASS] == tally.tested and not tally.refused else Answer.CATCH


def _catch(
    held: Sequence[tuple[Cell, Slot]], verdicts: frozenset[Verdict], with_value: str, of_one: str, of_more: str
) -> str:
    """`fp16 refused` where one axis value tells exactly which cells; else `3 refused`."""
    hit = [cell for cell, slot in held if slot.verdict in verdicts]
    if not hit:
        return ""
    clear = [cell for cell, slot in held if slot.verdict not in verdicts and slot.verdict not in UNTESTED]
    for axis, value in hit[0].axes.items():
        tells = all(cell.axes.get(axis) == value for cell in hit) and all(
            cell.axes.get(axis) != value for cell in clear
        )
        if clear and tells:
            return with_value.format(_axis_words(axis, value))
    return (of_one if len(hit) == 1 else of_more).format(len(hit))


def _axis_words(axis: str, value: AxisValue) -> str:
    """Words such as `bf16` speak for themselves; numbers and switches need their axis."""
    return value if isinstance(value, str) and value not in ("on", "off", "none") else f"{axis} {value}"
