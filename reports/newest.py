"""Choosing the newest run of each series, where records of several nights or places lie together."""

from __future__ import annotations

from conformance.model.record import Record
from conformance.model.run_header import RunHeader
from reports.matrix import ColumnKey
from reports.merge import by_column
from reports.read import Sources


def newest(sources: Sources) -> Sources:
    """Of each series (lane, transport, stack, integration, MPI, Wine) only the column that was begun last."""
    records, headers = by_column(sources.records, sources.headers)
    kept: dict[str, tuple[str, ColumnKey]] = {}
    for key in sorted({*records, *headers}):
        started = max(each.started for each in _all(records.get(key, []), headers.get(key, [])))
        kept[key.series] = max(kept.get(key.series, (started, key)), (started, key))
    keys = [key for _, key in kept.values()]
    return Sources(
        records=tuple(record for key in keys for record in records.get(key, [])),
        headers=tuple(header for key in keys for header in headers.get(key, [])),
        problems=sources.problems,
    )


def _all(records: list[Record], headers: list[RunHeader]) -> list[Record | RunHeader]:
    return [*records, *headers]
