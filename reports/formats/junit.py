"""JUnit XML, valid against both the Jenkins and the Ant schema.

JUnit knows passed, failure, error and skipped, so:

| verdict | JUnit |
|---|---|
| PASS, UNSUPPORTED | passed: the contract holds. UNSUPPORTED says in `system-out` that it was refused |
| FAIL, CRASH, TIMEOUT, XPASS | failure, its type the verdict |
| ERROR | error |
| XFAIL | skipped, its message the known issue: not a pass, and no news either |
| NOT_RUN, NO_DATA | skipped, its message what is missing |

One test suite a column; the name of a test case is the cell's id.
"""

from __future__ import annotations

import datetime
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from conformance.model.verdict import Verdict
from reports.matrix import Cell, Column, Matrix, Slot
from reports.times import instant
from reports.words import detail, message

FAILURES = (Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.XPASS)
SKIPPED = (Verdict.XFAIL, Verdict.NOT_RUN, Verdict.NO_DATA)

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(matrix: Matrix) -> str:
    """The text of a JUnit XML file."""
    root = ET.Element("testsuites")
    for number, column in enumerate(matrix.columns):
        root.append(_suite(matrix, column, number))
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def legal(text: str) -> str:
    """The text with what XML 1.0 cannot hold (most control characters, lone surrogates) replaced by U+FFFD."""
    return _NOT_XML.sub("\ufffd", text)


def _suite(matrix: Matrix, column: Column, number: int) -> ET.Element:
    held = [(cell, slot) for cell in matrix.cells if (slot := matrix.slot(cell, column)) is not None]
    tally = matrix.tally(column)
    seconds = sum(slot.record.seconds for _, slot in held if slot.record)
    element = ET.Element(
        "testsuite",
        name=column.label,
        package=column.key.lane,
        id=str(number),
        timestamp=_timestamp(column, matrix),
        hostname=column.latest.host.host_class if column.latest.host else "localhost",
        tests=str(len(held)),
        failures=str(sum(tally[verdict] for verdict in FAILURES)),
        errors=str(tally[Verdict.ERROR]),
        skipped=str(sum(tally[verdict] for verdict in SKIPPED)),
        time=f"{seconds:.3f}",
    )
    properties = ET.SubElement(element, "properties")
    for name, value in _facts(column):
        ET.SubElement(properties, "property", name=name, value=legal(value))
    for cell, slot in held:
        element.append(_case(column, cell, slot))
    ET.SubElement(element, "system-out").text = legal(f"PARTIAL: {column.partial}" if column.partial else "")
    ET.SubElement(element, "system-err").text = ""
    return element


def _case(column: Column, cell: Cell, slot: Slot) -> ET.Element:
    record = slot.record
    element = ET.Element(
        "testcase",
        name=legal(cell.id),
        classname=f"{column.slug}.{legal(cell.suite)}",
        time=f"{record.seconds if record else 0.0:.3f}",
    )
    why = legal(message(slot))
    text = legal(detail(slot))
    if slot.verdict in FAILURES:
        ET.SubElement(element, "failure", type=slot.verdict.value, message=why).text = text
    elif slot.verdict is Verdict.ERROR:
        ET.SubElement(element, "error", type=slot.verdict.value, message=why).text = text
    elif slot.verdict in SKIPPED:
        ET.SubElement(element, "skipped", message=why)
    return element


def _facts(column: Column) -> Sequence[tuple[str, str]]:
    run = column.latest
    facts = [("lane", column.key.lane), ("launcher", column.launcher), ("transport", column.transport)]
    facts += [("stack", column.key.stack), ("integration", column.key.integration)]
    facts += [("wine", column.key.wine), ("commit", column.key.commit), ("partial", column.partial)]
    facts += [("python", run.python), *((f"package.{name}", version) for name, version in sorted(run.packages.items()))]
    if run.host:
        facts += [("os", f"{run.host.os} {run.host.os_version}"), ("cpu", run.host.cpu)]
    return [(name, value) for name, value in facts if value]


def _timestamp(column: Column, matrix: Matrix) -> str:
    started = instant(column.runs[0].started) or matrix.built
    return started.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
