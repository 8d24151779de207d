"""What the page's script needs, in the shapes that it reads: one index, and details in compressed blocks.

The index holds what filtering and the matrix need. Details (log, numbers, versions …) are in one block for each suite
and column, and the script opens a block when one of its cells is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from conformance.model.record import Record
from conformance.model.verdict import Verdict
from reports import places
from reports.answers import headline_groups
from reports.embed import Pool, squeezed
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

BUDGET = 2_300_000
"""Bytes that all details together may weigh in the page, so that 5 lanes of 1,000 cells stay below 3 MB."""
LEVELS = ((16_000, True), (16_000, False), (4_000, False), (1_000, False))
"""How many characters of each log the page keeps, and whether it keeps the observations of passing cells; the first
for which the details are within the budget."""


def index(matrix: Matrix, history: Sequence[Past]) -> dict[str, Any]:
    """The part of the data that the script reads at once."""
    titles, rules, reasons = Pool(), list(matrix.rules), Pool()
    features = [headline for group in headline_groups() for headline in group.headlines]
    chosen = [{cell.id for cell in headline.chosen(matrix)} for headline in features]
    suites = list(matrix.suites)
    rule_number = {rule: number for number, rule in enumerate(rules)}
    cells = [
        [
            cell.id,
            suites.index(cell.suite),
            cell.case,
            titles.number(cell.title),
            [rule_number[rule] for rule in cell.rules],
            [number for number, ids in enumerate(chosen) if cell.id in ids],
        ]
        for cell in matrix.cells
    ]
    return {
        "verdicts": [[LETTERS[verdict], verdict.value, meaning] for verdict, meaning in MEANING.items()],
        "suites": suites,
        "titles": titles.values,
        "rules": [[rule.id, rule.text, rule.source] for rule in matrix.rules.values()],
        "features": [[headline.name, headline.title] for headline in features],
        "cells": cells,
        "since": _since(matrix),
        "columns": [_column(matrix, column, reasons, of_column(column, history)) for column in matrix.columns],
        "reasons": reasons.values,
    }


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


def details(matrix: Matrix) -> tuple[list[list[str]], str]:
    """The blocks by suite and column, and a sentence on what was left out to keep the page light."""
    for log_length, passing_observations in LEVELS:
        blocks = [
            [_block(matrix, suite, column, log_length, passing_observations) for column in matrix.columns]
            for suite in matrix.suites
        ]
        if sum(len(block) for row in blocks for block in row) <= BUDGET:
            break
    return blocks, _left_out(log_length, passing_observations)


def _left_out(log_length: int, passing_observations: bool) -> str:
    parts = []
    if not passing_observations:
        parts.append("observations of passing cells are left out")
    if log_length < LEVELS[0][0]:
        parts.append(f"logs are cut to {log_length:,} characters")
    return f"To keep this page light, {' and '.join(parts)}; the record files hold all of it." if parts else ""


def _column(matrix: Matrix, column: Column, reasons: Pool, past: Sequence[Past]) -> dict[str, Any]:
    slots = [matrix.slot(cell, column) for cell in matrix.cells]
    return {
        "slug": column.slug,
        "label": column.label,
        "lane": column.key.lane,
        "stack": column.key.stack,
        "integration": column.key.integration,
        "launcher": column.launcher,
        "transport": column.transport,
        "wine": column.key.wine,
        "device": places.device(column),
        "capabilities": places.capabilities(column),
        "commit": column.key.commit,
        "dirty": column.key.dirty,
        "partial": column.partial,
        "verdicts": "".join(LETTERS[slot.verdict] if slot else "." for slot in slots),
        "reasons": {
            str(number): reasons.number(slot.reason) for number, slot in enumerate(slots) if slot and slot.reason
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
