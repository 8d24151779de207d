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
from reports import places
from reports.matrix import UNTESTED, AxisValue, Cell, Column, Matrix, Slot, Tally

HEADLINES = Path(__file__).with_name("headlines.toml")


class Answer(enum.StrEnum):
    """What a visitor reads; the value is the text shown."""

    WORKS = "works"
    PARTLY = "partly tested"
    CATCH = "works in part"
    REFUSED = "refused"
    BROKEN = "broken"
    UNTESTED = "not tested"


MEANING = {
    Answer.WORKS: "All that the question asks was tested, and all of it passed.",
    Answer.PARTLY: "What was tested passed; the rest was not tested. The numbers say how much.",
    Answer.CATCH: "At least half of what was tested passed; the rest failed.",
    Answer.BROKEN: "Less than half of what was tested passed.",
    Answer.REFUSED: "DeepSpeed or the integration says that it cannot do this, as the rules say it should.",
    Answer.UNTESTED: "Nothing ran: the host lacks something, the lane never reported, or it has no such cell.",
}


class CellChoice(Frozen):
    """Which cells a headline speaks of."""

    suite: str
    case: tuple[str, ...] = ("*",)
    axes: dict[str, str | int | float | bool] = pydantic.Field(default_factory=dict)
    says: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    @pydantic.field_validator("case", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    def holds(self, cell: Cell) -> bool:
        """Whether the cell is one of them."""
        if cell.suite != self.suite or not any(matches(glob, cell.case) for glob in self.case):
            return False
        if any(cell.axes.get(axis) != value for axis, value in self.axes.items()):
            return False
        words = {*cell.case.split("_"), *(str(value) for value in cell.axes.values())}
        return (not self.says or not words.isdisjoint(self.says)) and words.isdisjoint(self.lacks)


class Headline(Frozen):
    """One question of the first screen.

    Attributes:
        on_cpu: what a reader must know of the answer where the column computed on a CPU.
    """

    name: str
    title: str
    cells: tuple[CellChoice, ...]
    on_cpu: str = ""

    def chosen(self, matrix: Matrix) -> list[Cell]:
        """The matrix's cells that answer it."""
        return [cell for cell in matrix.cells if any(choice.holds(cell) for choice in self.cells)]

    def caveat(self, column: Column) -> str:
        """What a reader must know of the column's answer; empty if nothing."""
        return self.on_cpu if places.on_cpu(column) else ""


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
        unasked: how many cells of the question the column has not in its plan, while others of its lane and
            integration have: a shorter run asked less.
        catch: what fails, in a few words; empty where nothing does.
        refused: what was refused as the rules say, in a few words.
        untested: what was not tested, and why, in a few words.
    """

    answer: Answer
    tally: Tally
    unasked: int
    catch: str
    refused: str
    untested: str

    @property
    def asked(self) -> int:
        """How many cells the question has here, less what was refused as the rules say."""
        return self.tally.tested + self.tally.untested + self.unasked

    @property
    def share(self) -> str:
        """`18 of 40`: how many passed of all that the question asks; empty where it asks nothing."""
        return f"{self.tally[Verdict.PASS]:,} of {self.asked:,}" if self.asked else ""

    @property
    def detail(self) -> str:
        """`18 of 40 pass; bf16 fails; 22 not tested: …`: all that the answer rests on."""
        parts = [f"{self.share} pass"] if self.tally.tested else []
        return "; ".join([*parts, *filter(None, (self.catch, self.untested, self.refused))])


@functools.cache
def headline_groups() -> tuple[HeadlineGroup, ...]:
    """The first screen's questions, from `headlines.toml`."""
    return _HeadlineFile.model_validate(tomllib.loads(HEADLINES.read_text(encoding="utf-8"))).group


def answer(matrix: Matrix, column: Column, cells: Sequence[Cell]) -> Answered:
    """The plain answer that the cells' verdicts in one column come to."""
    held = [(cell, slot) for cell in cells if (slot := matrix.slot(cell, column)) is not None]
    tally = Tally(Counter(slot.verdict for _, slot in held))
    unasked = matrix.unasked(column, cells)
    catches = [text for verdicts, words in _CATCHES if (text := _catch(held, verdicts, *words))]
    refused = _catch(held, frozenset({Verdict.UNSUPPORTED}), *(["{} refused"] * 3))
    return Answered(
        answer=_answer(tally, unasked),
        tally=tally,
        unasked=unasked,
        catch="; ".join(catches),
        refused=refused,
        untested=_untested([slot for _, slot in held], unasked),
    )


_CATCHES = (
    (frozenset({Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT}), ("{} fails", "{} fails", "{} fail")),
    (frozenset({Verdict.XFAIL}), ("{} fails (known)", "{} fails (known)", "{} fail (known)")),
    (frozenset({Verdict.XPASS}), ("{}: known issue gone", "{} known issue gone", "{} known issues gone")),
)
"""For what makes a catch: the words with an axis value, for one cell, and for more."""


def _answer(tally: Tally, unasked: int) -> Answer:
    if tally.tested == 0:
        return Answer.REFUSED if tally.refused else Answer.UNTESTED
    good = tally[Verdict.PASS] + tally[Verdict.XPASS]
    if good == 0 or 2 * good < tally.tested:
        return Answer.BROKEN
    if tally[Verdict.PASS] < tally.tested:
        return Answer.CATCH
    return Answer.PARTLY if tally.untested or unasked else Answer.WORKS


def _untested(slots: Sequence[Slot], unasked: int) -> str:
    """`22 not tested: needs DeepSpeed's op cpu_adam; 3 not asked by this run`."""
    reasons = Counter(
        "never reported" if slot.verdict is Verdict.NO_DATA else slot.reason
        for slot in slots
        if slot.verdict in UNTESTED
    )
    parts = []
    if reasons:
        told = [reason for reason, _ in reasons.most_common(_MOST_REASONS) if reason]
        more = ", …" if len(reasons) > _MOST_REASONS else ""
        parts.append(f"{reasons.total():,} not tested" + (f": {', '.join(told)}{more}" if told else ""))
    if unasked:
        parts.append(f"{unasked:,} not asked by this shorter run")
    return "; ".join(parts)


_MOST_REASONS = 2


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
