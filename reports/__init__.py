"""From records to reports: merging, and the formats that people and machines read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from conformance.model.record import Record
from conformance.model.run_header import RunHeader
from reports.formats import badges, ctrf, html, junit, markdown
from reports.history import Past, past_of
from reports.matrix import Matrix, Problem
from reports.merge import merge
from reports.publish import PublishError, publish
from reports.read import SourceError, Sources, read_sources
from reports.writing import WriteError, write_text

__all__ = [
    "Matrix",
    "Past",
    "Problem",
    "PublishError",
    "SourceError",
    "Sources",
    "WriteError",
    "merge",
    "past_of",
    "publish",
    "read_sources",
    "write_all",
    "write_matrix",
]


def write_all(
    records: Iterable[Record],
    headers: Iterable[RunHeader],
    folder: Path,
    *,
    expected: Mapping[str, Iterable[str]] | None = None,
    problems: Iterable[Problem] = (),
    history: Sequence[Past] = (),
) -> dict[str, Path]:
    """Merge and write every format: what a run calls at its end.

    Args:
        records: in any order.
        headers: what the runs set out to do; without one, missing cells cannot be told from cells never planned.
        folder: where the files go; made if need be.
        expected: cell ids by lane, where a lane's whole matrix is known apart from any header.
        problems: what could not be read, to be shown.
        history: earlier runs, for trends, each cell's past and comparison.

    Returns:
        The written files by name: `index.html` with its `data/…`, `report.md`, `junit.xml`, `ctrf.json`, and
        `badges/…` for each lane.

    Raises:
        WriteError: the folder cannot be written.
    """
    return write_matrix(merge(records, headers, expected=expected, problems=problems), folder, history=history)


def write_matrix(
    matrix: Matrix, folder: Path, *, history: Sequence[Past] = (), links: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Path]:
    """Write every format of a merged matrix; see `write_all`.

    Args:
        links: addresses by their text, for the page's head.
    """
    texts = html.render(matrix, history, links=links) | {
        "report.md": markdown.render(matrix),
        "junit.xml": junit.render(matrix),
        "ctrf.json": ctrf.render(matrix),
    }
    texts |= {f"badges/{name}": text for name, text in badges.render(matrix).items()}
    # The page comes last: whoever opens it meanwhile finds what it names.
    for name, text in sorted(texts.items(), key=lambda item: item[0] == "index.html"):
        write_text(folder / name, text)
    for old in (folder / html.DATA).glob("*.js"):
        if f"{html.DATA}/{old.name}" not in texts and re.fullmatch(r"[a-z0-9-]+\.[0-9a-f]{8}\.js", old.name):
            old.unlink(missing_ok=True)
    return {name: folder / name for name in texts}
