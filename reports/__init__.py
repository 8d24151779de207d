"""From records to reports: merging, and the formats that people and machines read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from conformance.records import Record
from conformance.run_header import RunHeader
from reports.formats import ctrf, html, junit, markdown
from reports.matrix import Matrix, Problem
from reports.merge import merge
from reports.read import SourceError, Sources, read_sources
from reports.writing import WriteError, write_text

__all__ = [
    "Matrix",
    "Problem",
    "SourceError",
    "Sources",
    "WriteError",
    "merge",
    "read_sources",
    "write_all",
    "write_matrix",
]

FORMATS = {"index.html": html.render, "report.md": markdown.render, "junit.xml": junit.render, "ctrf.json": ctrf.render}


def write_all(
    records: Iterable[Record],
    headers: Iterable[RunHeader],
    folder: Path,
    *,
    expected: Mapping[str, Iterable[str]] | None = None,
    problems: Iterable[Problem] = (),
) -> dict[str, Path]:
    """Merge and write every format: what a run calls at its end.

    Args:
        records: in any order.
        headers: what the runs set out to do; without one, missing cells cannot be told from cells never planned.
        folder: where the files go; made if need be.
        expected: cell ids by lane, where a lane's whole matrix is known apart from any header.
        problems: what could not be read, to be shown.

    Returns:
        The written files by name: `index.html`, `report.md`, `junit.xml`, `ctrf.json`.

    Raises:
        WriteError: the folder cannot be written.
    """
    return write_matrix(merge(records, headers, expected=expected, problems=problems), folder)


def write_matrix(matrix: Matrix, folder: Path) -> dict[str, Path]:
    """Write every format of a merged matrix; see `write_all`."""
    written = {}
    for name, render in FORMATS.items():
        write_text(folder / name, render(matrix))
        written[name] = folder / name
    return written
