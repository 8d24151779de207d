"""What the page's script needs, in the shapes that it reads, in parts that it loads when they are asked for.

The index is in the page. The cells with their verdicts (what filters, matrix, rules and comparison need) are one file;
the details of a column (logs, numbers, versions …) are a file a column, with a compressed block for each suite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from conformance.model.record import Record
from conformance.model.verdict import Verdict
from reports import places
from reports.answers import headline_groups
from reports.embed import Pool, squeezed
from reports.grounds import Grounds
from reports.history import Past, of_column
from reports.matrix import Column, Matrix, Slot
from reports.since import line_of, series_of
from reports.words import MEANING

LETTERS = {
    Verdict.PASS: "P",
    Verdict.FAIL: "F",
    Verdict.CRASH: "C",
    Verdict.TIMEOUT: "T",
    Verdict.XFAIL: "K",
    Verdict.XPASS: "X",
    Verdict.UNSUPPORTED: "U",
    Verdict.NOT_RUN: "N",
    Verdict.ERROR: "E",
    Verdict.NO_DATA: "D",
}
"""One letter a verdict; `.` stands for a cell that is not in a column's plan."""

BUDGET = 700_000
"""Bytes that the details of one column may weigh, so that a slow line has them in a few seconds."""
LEVELS = ((16_000, True), (16_000, False), (4_000, False), (1_000, False))
"""How many characters of each log a column keeps, and whether it keeps the observations of passing cells; the first
for which the details are within the budget."""
SHOWN_FIRST: Final = 5
"""The most columns that a reader is shown at once before he chooses."""


def index(matrix: Matrix, rests_on: Grounds, files: dict[str, Any]) -> dict[str, Any]:
    """The part of the data that is in the page.

    Args:
        files: the names of the other parts: `cells`, and `columns`, one a column.
    """
    return {
        "verdicts": [[LETTERS[verdict], verdict.value, meaning] for verdict, meaning in MEANING.items()],
        "features": [[headline.name, headline.title] for headline in _headlines()],
        "columns": [_column(column) for column in matrix.columns],
        "first": shown_first(matrix),
        "never": list(rests_on.never_run),
        "files": files,
    }


def shown_first(matrix: Matrix) -> list[int]:
    """The numbers of the columns that a reader is shown first: one a lane, as the lanes are run by default; up to 5."""
    lanes: set[str] = set()
    first: list[int] = []
    for number, column in enumerate(matrix.columns):
        if column.key.lane not in lanes and len(first) < SHOWN_FIRST:
            lanes.add(column.key.lane)
            first.append(number)
    if len(first) < 3:
        first = sorted({*first, *range(min(SHOWN_FIRST, len(matrix.columns)))})[:SHOWN_FIRST]
    return first


def cells(matrix: Matrix, history: Sequence[Past]) -> dict[str, Any]:
    """All cells and what each column says of them."""
    titles, rules, reasons, issues = Pool(), list(matrix.rules), Pool(), Pool()
    chosen = [{cell.id for cell in headline.chosen(matrix)} for headline in _headlines()]
    suites = list(matrix.suites)
    rule_number = {rule: number for number, rule in enumerate(rules)}
    return {
        "suites": suites,
        "rules": [[rule.id, rule.text, rule.source] for rule in matrix.rules.values()],
        "cells": [
            [
                cell.id,
                suites.index(cell.suite),
                cell.case,
                titles.number(cell.title),
                [rule_number[rule] for rule in cell.rules],
                [number for number, ids in enumerate(chosen) if cell.id in ids],
            ]
            for cell in matrix.cells
        ],
        "since": _since(matrix),
        "columns": [
            _verdicts(matrix, column, reasons, issues, of_column(column, history)) for column in matrix.columns
        ],
        "titles": titles.values,
        "reasons": reasons.values,
        "issues": issues.values,
    }


def details(matrix: Matrix, column: Column) -> tuple[dict[str, str], str]:
    """A column's blocks by the number of the suite, and a sentence on what was left out to keep them light."""
    for log_length, passing_observations in LEVELS:
        blocks = {
            str(number): block
            for number, suite in enumerate(matrix.suites)
            if (block := _block(matrix, suite, column, log_length, passing_observations))
        }
        if sum(map(len, blocks.values())) <= BUDGET:
            break
    return blocks, _left_out(log_length, passing_observations)


def _headlines() -> list[Any]:
    return [headline for group in headline_groups() for headline in group.headlines]


def _since(matrix: Matrix) -> dict[str, list[str]]:
    """By the number of a cell, a line a series of DeepSpeed versions that was tested."""
    several = series_of(matrix)
    named = {
        str(number): [
            f"{series.label}: {line}" if series.label else line
            for series in several
            if (line := line_of(matrix, series, cell))
        ]
        for number, cell in enumerate(matrix.cells)
    }
    return {number: lines for number, lines in named.items() if lines}


def _left_out(log_length: int, passing_observations: bool) -> str:
    parts = []
    if not passing_observations:
        parts.append("observations of passing cells are left out")
    if log_length < LEVELS[0][0]:
        parts.append(f"logs are cut to {log_length:,} characters")
    return f"To keep this page light, {' and '.join(parts)}; the record files hold all of it." if parts else ""


def _column(column: Column) -> dict[str, Any]:
    """What names and tells apart a column."""
    key = column.key
    return {
        "slug": column.slug,
        "label": column.label,
        "lane": key.lane,
        "stack": key.stack,
        "integration": key.integration,
        "name": places.integration(column),
        "launcher": column.launcher,
        "transport": column.transport,
        "mpi": places.mpi(column),
        "wine": key.wine,
        "device": places.device(column),
        "kind": "CPU" if places.on_cpu(column) else "GPU",
        "capabilities": places.capabilities(column),
        "deepspeed": places.version(column),
        "torch": places.version(column, "torch"),
        "commit": key.commit,
        "dirty": key.dirty,
        "partial": column.partial,
        "started": column.latest.started,
        "runs": [run.id for run in column.runs],
    }


def _verdicts(matrix: Matrix, column: Column, reasons: Pool, issues: Pool, past: Sequence[Past]) -> dict[str, Any]:
    slots = [matrix.slot(cell, column) for cell in matrix.cells]
    return {
        "verdicts": "".join(LETTERS[slot.verdict] if slot else "." for slot in slots),
        "reasons": {
            str(number): reasons.number(slot.reason) for number, slot in enumerate(slots) if slot and slot.reason
        },
        "issues": {
            str(number): issues.number([slot.record.known_issue.id, slot.record.known_issue.title])
            for number, slot in enumerate(slots)
            if slot and slot.record and slot.record.known_issue
        },
        "past": [
            {
                "started": each.started,
                "commit": each.commit,
                "verdicts": "".join(
                    LETTERS[each.verdicts[cell.id]] if cell.id in each.verdicts else "." for cell in matrix.cells
                ),
            }
            for each in past
        ],
        "disagree": [number for number, slot in enumerate(slots) if slot and slot.disagree],
        "excluded": {
            str(number): reasons.number(reason)
            for number, cell in enumerate(matrix.cells)
            if (reason := matrix.excluded.get((cell.id, column.key)))
        },
    }


def _block(matrix: Matrix, suite: str, column: Column, log_length: int, passing_observations: bool) -> str:
    provenances = Pool()
    cells: dict[str, Any] = {}
    for number, cell in enumerate(matrix.cells):
        if cell.suite != suite or (slot := matrix.slot(cell, column)) is None or slot.record is None:
            continue
        cells[str(number)] = [
            _record(record, provenances, log_length, passing_observations) for record in _newest_last_shown_first(slot)
        ]
    return squeezed({"cells": cells, "provenances": provenances.values}) if cells else ""


def _newest_last_shown_first(slot: Slot) -> Iterator[Record]:
    if slot.record is not None:
        yield slot.record
    yield from slot.others


def _record(record: Record, provenances: Pool, log_length: int, passing_observations: bool) -> dict[str, Any]:
    keep_observations = passing_observations or record.verdict is not Verdict.PASS
    facts: dict[str, Any] = {
        "verdict": LETTERS[record.verdict],
        "reason": record.reason,
        "remedy": record.remedy,
        "issue": record.known_issue.model_dump() if record.known_issue else None,
        "started": record.started,
        "seconds": record.seconds,
        "scenario": record.scenario_seconds,
        "mode": record.rank_mode,
        "ranks": [[r.step, r.rank, r.status, r.exit_code, r.seconds, r.error or ""] for r in record.ranks],
        "numbers": _numbers(record),
        "observations": _plain(record.observations) if keep_observations else None,
        "log": cut(record.log, log_length),
        "stacks": cut(record.stacks, log_length),
        "repeat": record.repeat,
        "provenance": provenances.number(record.provenance.model_dump(mode="json", exclude_none=True)),
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [], {})}


def _numbers(record: Record) -> Sequence[Sequence[Any]]:
    """Name, what was measured, what was allowed (None where nothing says)."""
    suffix = "_tolerance"
    names = [
        name for name in record.numbers if not (name.endswith(suffix) and name.removesuffix(suffix) in record.numbers)
    ]
    return [[name, _plain(record.numbers[name]), _plain(record.numbers.get(name + suffix))] for name in names]


def _plain(value: Any) -> Any:
    """The value with nan and inf as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def cut(text: str, length: int) -> str:
    """The text, its middle cut out where it is longer than `length` characters."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters cut …\n{text[-half:]}"
