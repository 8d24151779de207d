"""Earlier published runs, kept light: which verdict each cell had, and with which versions.

The records of a series' newest run lie in its folder; each run before it leaves a file `past/<run>.json.gz` there.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import pydantic

from conformance.model.record import Frozen, Record
from conformance.model.verdict import Verdict
from reports.history import Past
from reports.matrix import Matrix
from reports.merge import by_column
from reports.read import SourceError, read_record_file
from reports.writing import write_bytes

FOLDER: Final = "past"


class PastRun(Frozen):
    """One run of a series, or what several runs of one commit came to together.

    Attributes:
        series: lane, transport, stack, integration, MPI and Wine; see `ColumnKey.series`.
        run: the id of its latest run.
        started: when that run's first cell started, UTC, ISO 8601.
        commit: the harness's commit.
        packages: versions by distribution name.
        verdicts: the ids of the cells that came to each verdict.
    """

    schema_version: Literal[1] = 1
    series: str
    run: str
    started: str
    commit: str
    packages: dict[str, str]
    verdicts: dict[Verdict, tuple[str, ...]]

    @property
    def by_cell(self) -> dict[str, Verdict]:
        """The verdict of each cell."""
        return {cell: verdict for verdict, cells in self.verdicts.items() for cell in cells}

    def as_past(self) -> Past:
        """What trends and comparisons need of it."""
        return Past(self.series, self.started, self.commit, self.by_cell)


def of_records(records: Iterable[Record]) -> list[PastRun]:
    """What each column of some records came to; of a cell's records the last started counts."""
    by_key, _ = by_column(records, ())
    found = []
    for key, some in by_key.items():
        of_cell = {record.cell: record for record in sorted(some, key=lambda record: record.started)}
        latest = max(of_cell.values(), key=lambda record: record.started)
        run = [record for record in some if record.provenance.run == latest.provenance.run]
        verdicts: dict[Verdict, list[str]] = {}
        for cell, record in sorted(of_cell.items()):
            verdicts.setdefault(record.verdict, []).append(cell)
        found.append(
            PastRun(
                series=key.series,
                run=latest.provenance.run,
                started=min(record.started for record in run),
                commit=key.commit,
                packages=latest.provenance.packages,
                verdicts={verdict: tuple(cells) for verdict, cells in verdicts.items()},
            )
        )
    return found


def of_matrix(matrix: Matrix) -> list[PastRun]:
    """What each column of a matrix came to."""
    records = (slot.record for slot in matrix.slots.values() if slot.record is not None)
    return of_records(records)


def keep(folder: Path, taking_over: Iterable[Record]) -> list[Path]:
    """Leave a light copy of the run whose records lie in a series' folder, before those of another take their place.

    Args:
        folder: the series' folder; nothing happens where it holds no records, or those of the same run.
        taking_over: the records that are about to be written.

    Raises:
        WriteError: the file cannot be written.
    """
    path = folder / "records.jsonl.gz"
    if not path.is_file():
        return []
    new = {record.provenance.run for record in taking_over}
    records, _ = read_record_file(path)
    return [write(folder, run) for run in of_records(records) if run.run not in new]


def write(folder: Path, run: PastRun) -> Path:
    """Write a run into a series' folder.

    Raises:
        WriteError: the file cannot be written.
    """
    path = folder / FOLDER / f"{run.run}.json.gz"
    # No time stamp in the file: the same run gives the same bytes.
    write_bytes(path, gzip.compress((run.model_dump_json() + "\n").encode("utf-8"), mtime=0))
    return path


def read(folder: Path) -> Sequence[PastRun]:
    """All earlier runs below a folder, oldest first.

    Raises:
        SourceError: a file is not such a run.
    """
    found = []
    for path in sorted(folder.glob(f"**/{FOLDER}/*.json.gz")):
        try:
            found.append(PastRun.model_validate_json(gzip.decompress(path.read_bytes())))
        except (OSError, EOFError, zlib.error, pydantic.ValidationError) as error:
            raise SourceError(f"{path}: is no earlier run as `python -m reports publish` keeps it: {error}") from None
    return sorted(found, key=lambda run: run.started)
