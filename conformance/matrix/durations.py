"""Recorded durations, by which shards are balanced: matrices/durations.json."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from conformance.matrix.errors import MatrixError
from conformance.model.record import Record

FILE_NAME = "durations.json"


def read_durations(folder: Path) -> dict[str, float]:
    """Seconds by cell id; empty without a file.

    Raises:
        MatrixError: the file holds something else.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {str(cell): float(seconds) for cell, seconds in content.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise MatrixError(f"{path}: found {error}, expected an object of seconds by cell id") from None


def durations_of(records: Iterable[Record]) -> dict[str, float]:
    """The median time of each cell over `records`, whatever the lane: shards need proportions only."""
    seen: dict[str, list[float]] = defaultdict(list)
    for record in records:
        if record.verdict.ran:
            seen[record.cell].append(record.seconds)
    return {cell: round(statistics.median(seconds), 2) for cell, seconds in sorted(seen.items())}


def write_durations(folder: Path, seconds: Mapping[str, float]) -> Path:
    """Replace the file by `seconds` laid over what it held before."""
    path = folder / FILE_NAME
    merged = dict(sorted({**read_durations(folder), **seconds}.items()))
    path.write_text(json.dumps(merged, indent=0) + "\n", encoding="utf-8", newline="\n")
    return path
