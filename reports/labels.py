"""Names of columns: for readers, as short as tells them apart; for links, the same from run to run."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence

from conformance.matrix.stack import DEFAULT_STACK
from conformance.model.planned_cell import DEFAULT_INTEGRATION
from reports import places
from reports.matrix import Column


def named(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns, in their order, with label and slug. Pure."""
    labels, slugs = _labels(columns), _slugs(columns)
    return tuple(
        dataclasses.replace(column, label=label, slug=slug)
        for column, label, slug in zip(columns, labels, slugs, strict=True)
    )


def _labels(columns: Sequence[Column]) -> list[str]:
    """Where it ran, then the integration and the release as far as they differ; more only for what is doubled."""
    labels = [_first(column, columns) for column in columns]
    for more in _MORE:
        said: dict[str, set[str]] = defaultdict(set)
        for label, column in zip(labels, columns, strict=True):
            said[label].add(more(column))
        labels = [
            f"{label} · {more(column)}" if len(said[label]) > 1 and more(column) else label
            for label, column in zip(labels, columns, strict=True)
        ]
    return labels


def _first(column: Column, columns: Sequence[Column]) -> str:
    key = column.key
    here = [other for other in columns if other.key.lane == key.lane]
    parts = [places.where(column, whose_mpi=len({other.key.mpi for other in here}) > 1)]
    if key.emulated:
        parts.append(f"emulated {key.emulated}")
    if len({other.key.integration for other in columns}) > 1 and key.integration != DEFAULT_INTEGRATION:
        parts.append(places.integration(column))
    if len({other.key.stack for other in columns}) > 1 and key.stack != DEFAULT_STACK:
        version = places.version(column)
        versions = {places.version(other) for other in here}
        parts.append(f"DeepSpeed {version}" if version and len(versions) > 1 else f"stack {key.stack}")
    return " · ".join(parts)


_MORE: Sequence[Callable[[Column], str]] = (
    lambda column: f"stack {column.key.stack}" if column.key.stack != DEFAULT_STACK else "",
    lambda column: places.integration(column),
    lambda column: column.key.transport if column.key.transport == "gloo" else "",
    lambda column: f"Wine {column.key.wine}" if column.key.wine else "",
    lambda column: column.key.mpi,
    lambda column: f"torch {places.version(column, 'torch')}",
    lambda column: f"@{column.key.commit[:7] or 'no commit'}",
    lambda column: "changed" if column.key.dirty else "",
    lambda column: column.key.lane,
)
"""What tells columns apart that have one label, tried in this order."""


def _slugs(columns: Sequence[Column]) -> list[str]:
    newest = {
        column.key.series: column.key
        for column in sorted(columns, key=lambda column: (column.latest.started, column.key))
    }
    return [
        column.key.series
        if newest[column.key.series] == column.key
        else f"{column.key.series}@{column.key.commit[:10] or 'none'}{'+' if column.key.dirty else ''}"
        for column in columns
    ]
