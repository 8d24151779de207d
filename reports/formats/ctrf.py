"""CTRF JSON (https://ctrf.io), specification 0.0.0 (a working draft).

CTRF knows passed, failed, skipped, pending and other; `rawStatus` always holds the verdict itself. So:

| verdict | CTRF |
|---|---|
| PASS, UNSUPPORTED | passed: the contract holds |
| FAIL, CRASH, TIMEOUT, XPASS | failed |
| XFAIL, NOT_RUN | skipped, with a message: not a pass, and no news either |
| NO_DATA | pending: planned, and never reported |
| ERROR | other: the harness failed, and nothing is known of the thing under test |
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from typing import Any

from conformance.model.verdict import Verdict
from reports.matrix import Cell, Column, Matrix, Slot
from reports.times import instant
from reports.words import detail, message

STATUS = {
    Verdict.PASS: "passed",
    Verdict.UNSUPPORTED: "passed",
    Verdict.FAIL: "failed",
    Verdict.CRASH: "failed",
    Verdict.TIMEOUT: "failed",
    Verdict.XPASS: "failed",
    Verdict.XFAIL: "skipped",
    Verdict.NOT_RUN: "skipped",
    Verdict.NO_DATA: "pending",
    Verdict.ERROR: "other",
}


def render(matrix: Matrix) -> str:
    """The text of a CTRF JSON file."""
    tests = [
        _test(column, cell, slot)
        for column in matrix.columns
        for cell in matrix.cells
        if (slot := matrix.slot(cell, column)) is not None
    ]
    counts = Counter(test["status"] for test in tests)
    starts = [test["start"] for test in tests if "start" in test]
    stops = [test["stop"] for test in tests if "stop" in test]
    built = _milliseconds(matrix.built)
    document = {
        "reportFormat": "CTRF",
        "specVersion": "0.0.0",
        "timestamp": matrix.built.isoformat(timespec="seconds"),
        "generatedBy": "reports",
        "results": {
            "tool": {"name": "deepspeed conformance"},
            "summary": {
                "tests": len(tests),
                **{status: counts[status] for status in ("passed", "failed", "skipped", "pending", "other")},
                "suites": len(matrix.suites) * len(matrix.columns),
                "start": min(starts, default=built),
                "stop": max(stops, default=built),
            },
            "tests": tests,
            "environment": {
                "extra": {
                    "columns": [_environment(column) for column in matrix.columns],
                    "problems": [str(problem) for problem in matrix.problems],
                }
            },
        },
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _test(column: Column, cell: Cell, slot: Slot) -> dict[str, Any]:
    test: dict[str, Any] = {
        "name": cell.id,
        "status": STATUS[slot.verdict],
        "rawStatus": slot.verdict.value,
        "duration": 0,
        "suite": [column.label, cell.suite, cell.case],
        "tags": list(cell.rules),
        "extra": {"column": column.slug, **({"title": cell.title} if cell.title else {})},
    }
    if slot.verdict is not Verdict.PASS or slot.disagree:
        test["message"] = message(slot)
    if slot.verdict not in (Verdict.PASS, Verdict.UNSUPPORTED) and (trace := detail(slot)):
        test["trace"] = trace
    if cell.axes:
        test["parameters"] = dict(cell.axes)
    if slot.record:
        test["duration"] = round(slot.record.seconds * 1000)
        started = instant(slot.record.started)
        if started is not None:
            test["start"] = _milliseconds(started)
            test["stop"] = test["start"] + test["duration"]
    return test


def _environment(column: Column) -> dict[str, Any]:
    run = column.latest
    facts: dict[str, Any] = {
        "column": column.slug,
        "lane": column.key.lane,
        "launcher": column.launcher,
        "transport": column.transport,
        "stack": column.key.stack,
        "integration": column.key.integration,
        "wine": column.key.wine,
        "commit": column.key.commit,
        "partial": column.partial,
        "python": run.python,
        "packages": dict(run.packages),
        "host": run.host.model_dump(mode="json", exclude_none=True) if run.host else {},
    }
    return {name: value for name, value in facts.items() if value}


def _milliseconds(moment: datetime.datetime) -> int:
    return round(moment.timestamp() * 1000)
