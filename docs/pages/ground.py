"""On what machines everything ran that is published: a caveat that goes by itself when better runs come."""

from __future__ import annotations

from docs.published import Published
from reports import places


def no_gpu(published: Published) -> bool:
    """Whether no published run computed on a GPU."""
    return all(map(places.on_cpu, published.results.columns))


def caveat(published: Published) -> str:
    """What a reader has to know of all results; empty if nothing."""
    windows = [column for column in published.results.columns if places.system(column) == "Windows"]
    parts = []
    if no_gpu(published):
        parts.append("All published runs computed on CPUs: no GPU yet.")
    if windows and all(column.key.wine for column in windows):
        parts.append("All that say Windows ran under Wine on Linux: no Windows machine yet.")
    return " ".join(parts)
