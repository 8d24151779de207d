"""What the site is made from: the matrix files, and the newest published run of each series."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

import reports
from conformance.matrix import Matrix as Contract
from conformance.matrix import load_matrix
from conformance.model.record import Record
from reports import past_runs
from reports.matrix import Cell, Column, Matrix, Slot
from reports.newest import newest
from reports.past_runs import PastRun


@functools.cache
def contract() -> Contract:
    """What matrices/ says; read once, which takes seconds."""
    return load_matrix()


@dataclasses.dataclass(frozen=True)
class Published:
    """Everything that pages are made from.

    Attributes:
        contract: lanes, cases, rules and known issues as matrices/ has them now.
        results: the merged records.
        sources: the records and headers themselves.
        past: what earlier runs came to, oldest first.
    """

    contract: Contract
    results: Matrix
    sources: reports.Sources
    past: tuple[PastRun, ...]

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Published:
        """Read the newest run of each series.

        Raises:
            SourceError: a path cannot be read, or holds no record.
        """
        folders = list(paths)
        everything = reports.read_sources(folders)
        sources = newest(everything)
        if not sources.records:
            raise reports.SourceError(f"{', '.join(map(str, folders))}: not one record could be read")
        kept = {id(record) for record in sources.records}
        # Of several nights that lie side by side, all but the newest are the past.
        older = past_runs.of_records(record for record in everything.records if id(record) not in kept)
        past = [*(run for folder in folders for run in past_runs.read(folder)), *older]
        return cls(
            contract=contract(),
            results=reports.merge(sources.records, sources.headers, problems=sources.problems),
            sources=sources,
            past=tuple(sorted(past, key=lambda run: run.started)),
        )

    def slots(self) -> Iterator[tuple[Column, Cell, Slot]]:
        """Every result."""
        for column in self.results.columns:
            for cell in self.results.cells:
                slot = self.results.slot(cell, column)
                if slot is not None:
                    yield column, cell, slot

    def records(self) -> Iterator[tuple[Column, Record]]:
        """Every record that gave a result."""
        for column, _, slot in self.slots():
            if slot.record is not None:
                yield column, slot.record
