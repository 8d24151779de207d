"""All records as one SQLite database, for questions that no page answers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from conformance.model.record import Provenance, Record
from reports.merge import column_key
from reports.past_runs import PastRun

SCHEMA: Final = """
-- Where, with what and from which sources records came. JSON where a column says so.
CREATE TABLE provenance (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,            -- shared by all records of one run
    os TEXT NOT NULL,             -- linux or windows
    os_version TEXT NOT NULL,
    wine TEXT,                    -- Wine's version where a Windows lane ran under Wine
    machine TEXT NOT NULL,
    cpu TEXT NOT NULL,
    cpu_count INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    gpus TEXT NOT NULL,           -- JSON: [{name, memory_bytes}, ...]
    host_class TEXT NOT NULL,
    python TEXT NOT NULL,
    mpi TEXT,                     -- vendor and version of the MPI that started ranks
    git_commit TEXT,              -- the harness's own
    ci_url TEXT,
    environment TEXT NOT NULL     -- JSON: variables that may change a verdict
);
CREATE TABLE packages (
    provenance INTEGER NOT NULL REFERENCES provenance (id),
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (provenance, name)
) WITHOUT ROWID;
CREATE TABLE known_issues (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    reference TEXT NOT NULL,      -- the address of the upstream report, or 'not reported'
    explanation TEXT NOT NULL,
    workaround TEXT NOT NULL,     -- what a user does instead; empty in records of before entries said so
    fault TEXT NOT NULL,          -- whose it is, such as 'deepspeed'
    area TEXT NOT NULL            -- what it is about, such as 'train'
);
CREATE TABLE rules (
    id TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    source TEXT NOT NULL
);
-- One row for what one cell came to, once.
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    series TEXT NOT NULL,         -- lane, transport, stack, integration, MPI and Wine in one name
    cell TEXT NOT NULL,
    suite TEXT NOT NULL,
    case_name TEXT NOT NULL,
    title TEXT NOT NULL,
    lane TEXT NOT NULL,
    launcher TEXT NOT NULL,
    transport TEXT NOT NULL,
    stack TEXT NOT NULL,
    integration TEXT NOT NULL,
    verdict TEXT NOT NULL,
    reason TEXT NOT NULL,
    remedy TEXT,
    known_issue TEXT REFERENCES known_issues (id),
    started TEXT NOT NULL,        -- UTC, ISO 8601
    seconds REAL NOT NULL,
    scenario_seconds REAL NOT NULL,
    rank_mode TEXT NOT NULL,
    ranks TEXT NOT NULL,          -- JSON: how each rank ended
    observations TEXT NOT NULL,   -- JSON: what rank 0 observed last, in short
    log TEXT NOT NULL,
    stacks TEXT NOT NULL,
    repeat TEXT NOT NULL,         -- the command that repeats just this cell
    provenance INTEGER NOT NULL REFERENCES provenance (id)
);
CREATE TABLE axes (
    record INTEGER NOT NULL REFERENCES records (id),
    axis TEXT NOT NULL,
    value,                        -- text, a number, or 1 and 0 for true and false
    PRIMARY KEY (record, axis)
) WITHOUT ROWID;
CREATE TABLE numbers (
    record INTEGER NOT NULL REFERENCES records (id),
    name TEXT NOT NULL,           -- an error, or with _tolerance at its end what was allowed
    value,                        -- a number, or the text nan, inf or -inf
    PRIMARY KEY (record, name)
) WITHOUT ROWID;
CREATE TABLE record_rules (
    record INTEGER NOT NULL REFERENCES records (id),
    rule TEXT NOT NULL REFERENCES rules (id),
    PRIMARY KEY (record, rule)
) WITHOUT ROWID;
-- What earlier runs of a series came to.
CREATE TABLE past (
    series TEXT NOT NULL,
    run TEXT NOT NULL,
    started TEXT NOT NULL,
    git_commit TEXT NOT NULL,
    deepspeed TEXT,
    cell TEXT NOT NULL,
    verdict TEXT NOT NULL,
    PRIMARY KEY (series, run, cell)
) WITHOUT ROWID;
CREATE INDEX records_cell ON records (cell);
CREATE INDEX records_verdict ON records (verdict);
"""


def write(path: Path, records: Iterable[Record], past: Iterable[PastRun] = ()) -> None:
    """Write the database to a file that does not exist yet.

    Raises:
        sqlite3.OperationalError: the file cannot be written, or is a database already.
    """
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(SCHEMA)
        found: dict[str, int] = {}
        for number, record in enumerate(sorted(records, key=lambda record: record.started), start=1):
            _record(database, number, record, found)
        _insert_many(
            database,
            "past",
            (
                {
                    "series": run.series,
                    "run": run.run,
                    "started": run.started,
                    "git_commit": run.commit,
                    "deepspeed": run.packages.get("deepspeed"),
                    "cell": cell,
                    "verdict": verdict.value,
                }
                for run in past
                for cell, verdict in run.by_cell.items()
            ),
        )


def _record(database: sqlite3.Connection, number: int, record: Record, found: dict[str, int]) -> None:
    issue = record.known_issue
    if issue is not None:
        _insert(database, "known_issues", issue.model_dump())
    for rule in record.rules:
        _insert(database, "rules", rule.model_dump())
    plain = {
        name: getattr(record, name)
        for name in (
            *("cell", "suite", "title", "lane", "launcher", "transport", "stack", "integration", "reason", "remedy"),
            *("started", "seconds", "scenario_seconds", "rank_mode", "log", "stacks", "repeat"),
        )
    }
    dumped = record.model_dump(mode="json", include={"ranks", "observations", "numbers"})
    _insert(
        database,
        "records",
        {
            **plain,
            "id": number,
            "series": column_key(record).series,
            "case_name": record.case,
            "verdict": record.verdict.value,
            "known_issue": issue.id if issue else None,
            "ranks": _json(dumped["ranks"]),
            "observations": _json(dumped["observations"]),
            "provenance": _provenance(database, record.provenance, found),
        },
    )
    for table, column, values in (("axes", "axis", record.axes), ("numbers", "name", dumped["numbers"])):
        _insert_many(database, table, ({"record": number, column: name, "value": values[name]} for name in values))
    _insert_many(database, "record_rules", ({"record": number, "rule": rule.id} for rule in record.rules))


def _provenance(database: sqlite3.Connection, provenance: Provenance, found: dict[str, int]) -> int:
    """The row of a provenance, which records of one run share."""
    text = provenance.model_dump_json()
    if text not in found:
        number = found[text] = len(found) + 1
        host = provenance.host
        row = {name: getattr(host, name) for name in ("os", "os_version", "wine", "machine", "cpu", "cpu_count")}
        row |= {name: getattr(host, name) for name in ("memory_bytes", "host_class")}
        row |= {name: getattr(provenance, name) for name in ("run", "python", "mpi", "git_commit", "ci_url")}
        row |= {"gpus": _json([gpu.model_dump() for gpu in host.gpus]), "environment": _json(provenance.environment)}
        _insert(database, "provenance", {**row, "id": number})
        packages = provenance.packages.items()
        _insert_many(
            database, "packages", ({"provenance": number, "name": name, "version": each} for name, each in packages)
        )
    return found[text]


def _insert(database: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    _insert_many(database, table, [row])


def _insert_many(database: sqlite3.Connection, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows of the same names, or put them in the place of older ones with the same keys."""
    listed = list(rows)
    if listed:
        # Names are this module's own and the models'; values never become part of the statement.
        statement = (
            f"INSERT OR REPLACE INTO {table} ({', '.join(listed[0])}) VALUES ({', '.join('?' * len(listed[0]))})"
        )
        database.executemany(statement, [[_storable(value) for value in row.values()] for row in listed])


def _storable(value: Any) -> Any:
    """Lone surrogates, which file names on Linux may bring, are no UTF-8."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
