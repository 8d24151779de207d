"""Keeping the records of a finished run in the repository, for the published report.

One folder a series (lane, transport, stack, integration, MPI, Wine), `records.jsonl.gz` and the headers in it; a later
run of the series takes the place of the earlier one, of which the verdicts stay in `past/`. Known issues that were
written down after the run explain its failures too, and the machine's own folders are taken out.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from conformance.matrix import Matrix
from conformance.matrix.known import explained_later
from conformance.model.record import Record, to_line
from conformance.model.run_header import RunHeader, to_text
from reports import past_runs, paths
from reports.matrix import ColumnKey
from reports.merge import by_column
from reports.read import Sources
from reports.writing import write_bytes

PUBLISHED = Path(__file__).resolve().parent / "published"


class PublishError(Exception):
    """Records that cannot be published as they are; says why, and the remedy."""


def publish(sources: Sources, known: Matrix, into: Path = PUBLISHED) -> list[Path]:
    """Write each series of `sources` into its folder under `into`, whatever it held before.

    Args:
        known: the matrix as it is now, for its known issues.

    Returns:
        The folders, in order.

    Raises:
        PublishError: a host was emulated, a run had changes of its own or did not come to its end, or two runs of one
            series differ in the commit or a version.
        WriteError: a folder cannot be written.
    """
    cells = {cell.id: cell for cell in known.cells}
    explained = [paths.without(explained_later(record, cells, known.known_issues)) for record in sources.records]
    records, headers = by_column(explained, [paths.without(header) for header in sources.headers])
    series: dict[str, ColumnKey] = {}
    for key in sorted({*records, *headers}):
        if (other := series.setdefault(key.series, key)) != key:
            raise PublishError(
                f"{key.series}: two runs that are not comparable, {_told(other)} and {_told(key)}; give one"
            )
        _check(key, records.get(key, []), headers.get(key, []))
    return [_write(into / name, records[key], headers[key]) for name, key in series.items()]


def _check(key: ColumnKey, records: list[Record], headers: list[RunHeader]) -> None:
    if key.emulated:
        raise PublishError(
            f"{key.series}: the host {key.emulated} was emulated, expected a machine as it is; "
            "such records are for: nox -s hosts"
        )
    if key.dirty or not key.commit:
        found = "uncommitted changes" if key.dirty else "no commit"
        raise PublishError(f"{key.series}: the run's checkout had {found}, expected a commit that others can check out")
    reported = {record.cell for record in records}
    missing = {cell for header in headers for cell in header.planned} - reported
    if missing or not headers:
        what = f"{len(missing)} planned cells were never reported" if headers else "there is no run header"
        raise PublishError(f"{key.series}: {what}; finish the run with --resume")


def _write(folder: Path, records: list[Record], headers: list[RunHeader]) -> Path:
    past_runs.keep(folder, records)
    for old in folder.glob("run*.json"):
        old.unlink()
    text = "".join(to_line(record) + "\n" for record in records)
    # No time stamp in the file: the same records give the same bytes.
    write_bytes(folder / "records.jsonl.gz", gzip.compress(text.encode("utf-8"), mtime=0))
    for name, header in _named(headers):
        write_bytes(folder / name, to_text(header).encode("utf-8"))
    return folder


def _named(headers: list[RunHeader]) -> Iterator[tuple[str, RunHeader]]:
    of_run: dict[str, list[RunHeader]] = defaultdict(list)
    for header in headers:
        of_run[header.run].append(header)
    for run, some in of_run.items():
        # The last of several headers of one run (begun, finished) says most.
        yield f"run.{run}.json", max(some, key=lambda header: header.finished or "")


def _told(key: ColumnKey) -> str:
    return ", ".join(filter(None, (f"commit {key.commit[:7]}" if key.commit else "no commit", key.mpi, key.wine)))
