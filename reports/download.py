"""Records to take away: all of them as JSON Lines and as a SQLite database, with their schemas."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from conformance.model import record as record_file
from conformance.model import run_header
from conformance.model.record import Record, to_line
from conformance.model.run_header import RunHeader
from reports.formats import sqlite
from reports.past_runs import PastRun
from reports.writing import write_bytes, write_text

RECORDS: Final = "records.jsonl.gz"
RUNS: Final = "runs.jsonl.gz"
DATABASE: Final = "records.sqlite"
PACKED_DATABASE: Final = f"{DATABASE}.zip"
RECORD_SCHEMA: Final = "record.schema.json"
RUN_SCHEMA: Final = "run.schema.json"


def write(
    folder: Path, records: Sequence[Record], headers: Iterable[RunHeader], past: Iterable[PastRun] = ()
) -> list[Path]:
    """Write all files; the same records give the same bytes.

    Raises:
        WriteError: the folder cannot be written.
    """
    write_bytes(folder / RECORDS, _lines(map(to_line, records)))
    write_bytes(folder / RUNS, _lines(header.model_dump_json(exclude_none=True) for header in headers))
    write_bytes(folder / PACKED_DATABASE, _database(records, past))
    for name, schema in ((RECORD_SCHEMA, record_file.json_schema()), (RUN_SCHEMA, run_header.json_schema())):
        write_text(folder / name, json.dumps(schema, indent=2) + "\n")
    return [folder / name for name in (RECORDS, RUNS, PACKED_DATABASE, RECORD_SCHEMA, RUN_SCHEMA)]


def _lines(lines: Iterable[str]) -> bytes:
    return gzip.compress("".join(f"{line}\n" for line in lines).encode("utf-8"), mtime=0)


def _database(records: Iterable[Record], past: Iterable[PastRun]) -> bytes:
    """The database, packed so that a double click opens it on every system."""
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / DATABASE
        sqlite.write(path, records, past)
        with zipfile.ZipFile(packed, "w") as archive:
            entry = zipfile.ZipInfo(DATABASE)  # Dated 1980: the time of writing would change the bytes.
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()
