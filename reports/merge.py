"""Merging records of many files, lanes, shards, stacks and integrations into one matrix.

Rules of the merge:
- Records are in one column if lane, transport, stack, integration, MPI, Wine, the kind of emulated host and the
  harness's commit are the same: so shards and repeats meet.
- A record that is given twice counts once. Several records of one cell in one column all stay visible; the worst of
  those that ran gives the verdict, so that a pass never hides a failure.
- A cell that a column planned and never reported is NO_DATA. Where no header and no list of expected cells tells what a
  column planned, every cell that any column knows counts as planned.
"""

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

from conformance.matrix.stack import DEFAULT_STACK
from conformance.model.planned_cell import DEFAULT_INTEGRATION
from conformance.model.record import Provenance, Record, RuleText, to_line
from conformance.model.run_header import RunHeader
from conformance.model.verdict import Verdict
from reports.answers import headline_groups
from reports.labels import named
from reports.matrix import AxisValue, Cell, Column, ColumnKey, Matrix, Problem, Run, Slot
from reports.remedies import fitting

WORST_FIRST = (
    Verdict.CRASH,
    Verdict.TIMEOUT,
    Verdict.FAIL,
    Verdict.XPASS,
    Verdict.ERROR,
    Verdict.XFAIL,
    Verdict.UNSUPPORTED,
    Verdict.PASS,
    Verdict.NOT_RUN,
    Verdict.NO_DATA,
)
"""Which of several verdicts on one cell is shown. NOT_RUN says least: another host may well have run the cell."""

_CELL_ID = re.compile(r"^(?P<suite>[^/\[]+)/(?P<case>[^\[]+)(?:\[(?P<axes>.*)\])?$", re.DOTALL)


def merge(
    records: Iterable[Record],
    headers: Iterable[RunHeader] = (),
    *,
    expected: Mapping[str, Iterable[str]] | None = None,
    problems: Iterable[Problem] = (),
    now: datetime.datetime | None = None,
) -> Matrix:
    """One matrix of all records.

    Args:
        records: in any order, of any mix of runs.
        headers: the headers of those runs, as far as there are any.
        expected: cell ids by lane, for lanes whose whole matrix is known apart from any header.
        problems: what could not be read, to be shown.
        now: when the matrix is built; taken from the clock by default.
    """
    by_key, headers_by_key = by_column(records, headers)
    keys = sorted({*by_key, *headers_by_key}, key=_place)
    columns = named([_column(key, by_key.get(key, []), headers_by_key.get(key, [])) for key in keys])

    every_record = [record for column_records in by_key.values() for record in column_records]
    cells = _cells(every_record, [header for some in headers_by_key.values() for header in some], expected or {})
    slots: dict[tuple[str, ColumnKey], Slot] = {}
    excluded: dict[tuple[str, ColumnKey], str] = {}
    for column in columns:
        reported: dict[str, list[Record]] = defaultdict(list)
        for record in by_key.get(column.key, []):
            reported[record.cell].append(record)
        for header in headers_by_key.get(column.key, []):
            excluded.update({(cell, column.key): reason for cell, reason in header.excluded.items()})
        planned = _planned(column, headers_by_key.get(column.key, []), expected or {}, cells)
        for cell in cells:
            if cell.id in reported:
                slots[cell.id, column.key] = _slot(reported[cell.id])
            elif cell.id in planned and (cell.id, column.key) not in excluded:
                slots[cell.id, column.key] = Slot(Verdict.NO_DATA, _why_no_data(column))
    return Matrix(
        columns=columns,
        cells=cells,
        slots=slots,
        excluded={where: reason for where, reason in excluded.items() if where not in slots},
        rules=_rules(every_record),
        problems=tuple(problems),
        built=now or datetime.datetime.now(datetime.UTC),
    )


def column_key(source: Record | RunHeader) -> ColumnKey:
    """The column that a record or a header belongs to."""
    provenance = source.provenance
    if provenance is None:
        return ColumnKey(source.lane, source.transport, source.stack, source.integration)
    return ColumnKey(
        source.lane,
        source.transport,
        source.stack,
        source.integration,
        mpi=provenance.mpi or "",
        wine=provenance.host.wine or "",
        emulated=provenance.host.emulated,
        commit=provenance.git_commit or "",
        dirty=bool(provenance.git_dirty),
    )


def parse_cell_id(cell: str) -> Cell:
    """A cell that is known by its id alone; axis values are typed as they read."""
    match = _CELL_ID.match(cell)
    if match is None:
        return Cell(cell, suite="other", case=cell, axes={})
    axes: dict[str, AxisValue] = {}
    for part in filter(None, (match["axes"] or "").split(",")):
        name, _, value = part.partition("=")
        axes[name] = _typed(value)
    return Cell(cell, match["suite"], match["case"], axes)


def _typed(value: str) -> AxisValue:
    if value in ("true", "false", "True", "False"):
        return value.lower() == "true"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def by_column(
    records: Iterable[Record], headers: Iterable[RunHeader]
) -> tuple[dict[ColumnKey, list[Record]], dict[ColumnKey, list[RunHeader]]]:
    """Records by column, each once, oldest first; and the headers that belong to them."""
    by_key = _records_by_column(records)
    return by_key, _headers_by_column(headers, by_key)


def _records_by_column(records: Iterable[Record]) -> dict[ColumnKey, list[Record]]:
    seen: dict[ColumnKey, dict[str, Record]] = defaultdict(dict)
    for record in records:
        key = column_key(record)
        seen[key].setdefault(to_line(record), record)
    # The line breaks ties, so that the order of the files decides nothing.
    return {
        key: [fitting(record) for _, record in sorted(unique.items(), key=lambda item: (item[1].started, item[0]))]
        for key, unique in seen.items()
    }


def _headers_by_column(
    headers: Iterable[RunHeader], by_key: Mapping[ColumnKey, Sequence[Record]]
) -> dict[ColumnKey, list[RunHeader]]:
    """Headers by column; one without provenance goes where the records of its run are."""
    key_of_run = {
        (record.provenance.run, record.lane, record.stack, record.integration): key
        for key, column_records in by_key.items()
        for record in column_records
    }
    result: dict[ColumnKey, list[RunHeader]] = defaultdict(list)
    for header in headers:
        key = key_of_run.get((header.run, header.lane, header.stack, header.integration))
        if key is None:
            key = column_key(header)
        if header not in result[key]:
            result[key].append(header)
    return result


def _column(key: ColumnKey, records: Sequence[Record], headers: Sequence[RunHeader]) -> Column:
    by_run: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_run[record.provenance.run].append(record)
    header_of = {header.run: header for header in headers}
    reported = {record.cell for record in records}
    runs = [_run(id, by_run.get(id, []), header_of.get(id), reported) for id in {**by_run, **header_of}]
    first = records[0] if records else None
    said = next((header for header in headers if header.launcher), None)
    return Column(
        key=key,
        launcher=first.launcher if first else said.launcher if said else "",
        runs=tuple(sorted(runs, key=lambda run: (run.started, run.id))),
    )


def _run(id: str, records: Sequence[Record], header: RunHeader | None, reported: Set[str]) -> Run:
    provenance = records[-1].provenance if records else header.provenance if header else None
    partial = ""
    if header is not None and header.partial:
        # A resumed run plans anew what earlier runs have reported, so the whole column counts.
        done = len(reported & set(header.planned))
        state = "was interrupted" if header.interrupted else "has not finished"
        partial = f"run {id} {state}: {done} of {len(header.planned)} cells reported"
        partial += f" ({header.note})" if header.note else ""
    return Run(
        id=id,
        started=header.started if header else records[0].started,
        finished=header.finished if header else None,
        planned=len(header.planned) if header else None,
        reported=len({record.cell for record in records}),
        partial=partial,
        host=provenance.host if provenance else None,
        python=provenance.python if provenance else "",
        packages=_versions(provenance) if provenance else {},
        ci_url=provenance.ci_url if provenance else None,
    )


def _versions(provenance: Provenance) -> dict[str, str]:
    return provenance.packages | ({"MPI": provenance.mpi} if provenance.mpi else {})


def _place(key: ColumnKey) -> tuple[object, ...]:
    """Where a column stands: the lanes as they are run by default come first, then what is driven in their place, then
    other versions, and emulated hosts last."""
    usual = (bool(key.emulated), key.stack != DEFAULT_STACK, key.integration != DEFAULT_INTEGRATION)
    return (*usual, key.lane, key.stack, key.integration, key.mpi, key.wine, key)


def _cells(
    records: Iterable[Record], headers: Iterable[RunHeader], expected: Mapping[str, Iterable[str]]
) -> tuple[Cell, ...]:
    """Every cell that a record, a header or the expectation knows; suites and cases stay together."""
    newest: dict[str, Record] = {}
    order: dict[str, None] = {}
    for header in headers:
        order.update(dict.fromkeys(header.planned))
        order.update(dict.fromkeys(header.excluded))
    for ids in expected.values():
        order.update(dict.fromkeys(ids))
    for record in records:
        order.setdefault(record.cell)
        if record.cell not in newest or newest[record.cell].started <= record.started:
            newest[record.cell] = record
    cells = []
    for id in order:
        if id not in newest:
            cells.append(parse_cell_id(id))
            continue
        record = newest[id]
        rules = tuple(rule.id for rule in record.rules)
        cells.append(Cell(id, record.suite, record.case, record.axes, record.title, rules))
    # Suites in the order of the questions that people ask, then as they come.
    asked = [choice.suite for group in headline_groups() for headline in group.headlines for choice in headline.cells]
    suites = {suite: place for place, suite in enumerate(dict.fromkeys([*asked, *(cell.suite for cell in cells)]))}
    cases = {case: place for place, case in enumerate(dict.fromkeys((cell.suite, cell.case) for cell in cells))}
    return tuple(sorted(cells, key=lambda cell: (suites[cell.suite], cases[cell.suite, cell.case])))


def _planned(
    column: Column, headers: Sequence[RunHeader], expected: Mapping[str, Iterable[str]], cells: Iterable[Cell]
) -> set[str]:
    planned = {cell for header in headers for cell in header.planned}
    if column.key.lane in expected:
        return planned | set(expected[column.key.lane])
    if column.headless:
        return {cell.id for cell in cells}
    return planned


def _why_no_data(column: Column) -> str:
    if column.partial:
        return f"never reported: {column.partial}"
    if column.headless:
        return "never reported by this lane; whether its run had planned the cell is not known"
    return "never reported by this lane, though its run says that it finished"


def _slot(records: Sequence[Record]) -> Slot:
    """One slot of the records of a cell in a column, given oldest first."""
    newest_first = list(reversed(records))
    shown = min(newest_first, key=lambda record: WORST_FIRST.index(record.verdict))
    telling = {record.verdict for record in records if record.verdict not in (Verdict.NOT_RUN, Verdict.NO_DATA)}
    return Slot(
        verdict=shown.verdict,
        reason=shown.reason,
        record=shown,
        others=tuple(record for record in newest_first if record is not shown),
        disagree=len(telling) > 1,
    )


def _rules(records: Iterable[Record]) -> dict[str, RuleText]:
    rules: dict[str, RuleText] = {}
    for record in sorted(records, key=lambda record: record.started):
        rules.update({rule.id: rule for rule in record.rules})
    return dict(sorted(rules.items()))
