"""The merged matrix: cells in rows, columns of lane × stack × integration, and a slot where they meet."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from conformance.model.record import Host, Record, RuleText
from conformance.model.verdict import Verdict

AxisValue = str | int | float | bool


@dataclasses.dataclass(frozen=True, order=True)
class ColumnKey:
    """What makes two runs comparable cell by cell.

    Attributes:
        lane, transport, stack, integration: as in the records; a lane may be run over more than one transport.
        mpi: vendor and version of the MPI that starts ranks; empty on lanes without one.
        wine: Wine's version where a Windows lane ran under it; empty otherwise.
        emulated: the kind of host that was emulated; empty for a machine as it is.
        commit: the harness's commit; empty outside a checkout. Different commits may ask different questions.
        dirty: whether the checkout had changes of its own.
    """

    lane: str
    transport: str
    stack: str
    integration: str
    mpi: str = ""
    wine: str = ""
    emulated: str = ""
    commit: str = ""
    dirty: bool = False

    @property
    def series(self) -> str:
        """What stays the same from night to night: all but the commit, and MPI and Wine without their versions."""
        parts = [self.lane, self.transport, self.stack, self.integration]
        parts += [self.mpi.rpartition(" ")[0]] if self.mpi else []
        parts += ["wine"] if self.wine else []
        return "~".join([*parts, *([f"emulated-{self.emulated}"] if self.emulated else [])])


@dataclasses.dataclass(frozen=True)
class Run:
    """One run, or one shard of it, that a column was merged from.

    Attributes:
        id: as in the records' provenance.
        started: UTC, ISO 8601; the header's, or the earliest record's.
        finished: UTC, ISO 8601; None if the run has no header or never finished.
        planned: how many cells it set out to report; None without a header.
        reported: how many cells it did report.
        partial: why the run is not whole; empty where it is, or where no header tells.
        host: the machine; None for a header without provenance and records.
        python: Python's version; empty if unknown.
        packages: versions by distribution name, and the MPI's as `MPI`.
        ci_url: where the run can be looked at.
    """

    id: str
    started: str
    finished: str | None
    planned: int | None
    reported: int
    partial: str
    host: Host | None
    python: str
    packages: Mapping[str, str]
    ci_url: str | None = None


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of the matrix.

    Attributes:
        key: its identity.
        launcher: as in the records; empty if no record and no header says.
        runs: what it was merged from, oldest first.
        label: the shortest name in a reader's words that tells it from the matrix's other columns.
        slug: its name in links, such as `linux_gloo~gloo~stable~reference`: the same for the next run, so that a link
            stays. Of columns that differ in their commit alone, all but the newest have the commit behind it.
    """

    key: ColumnKey
    launcher: str
    runs: tuple[Run, ...]
    label: str = ""
    slug: str = ""

    @property
    def transport(self) -> str:
        """As in the records; empty if no record and no header says."""
        return self.key.transport

    @property
    def partial(self) -> str:
        """Why the column is not whole; empty if it is."""
        return "; ".join(dict.fromkeys(run.partial for run in self.runs if run.partial))

    @property
    def headless(self) -> bool:
        """Whether no run has a header, so that nobody can tell what the column left out."""
        return all(run.planned is None for run in self.runs)

    @property
    def latest(self) -> Run:
        """The youngest run."""
        return self.runs[-1]

    @property
    def mixed_versions(self) -> dict[str, tuple[str, ...]]:
        """Packages of which the column's runs had different versions."""
        names = sorted({name for run in self.runs for name in run.packages})
        by_name = {name: tuple(dict.fromkeys(run.packages.get(name, "none") for run in self.runs)) for name in names}
        return {name: versions for name, versions in by_name.items() if len(versions) > 1}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One row: a case with its axes filled in, whichever column ran it.

    Attributes:
        id: for instance `checkpoint/resume[stage=2,dtype=bf16,world=2]`.
        suite, case, axes: its parts.
        title: what was asked, in one sentence; empty if no record says.
        rules: the ids of the rules that it checks.
    """

    id: str
    suite: str
    case: str
    axes: Mapping[str, AxisValue]
    title: str = ""
    rules: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Slot:
    """Where a cell meets a column that has it in its plan.

    Attributes:
        verdict: what the column says of the cell; of several records that disagree, the worst.
        reason: why.
        record: the record that gave the verdict; None with NO_DATA.
        others: further records of the same cell and column, newest first.
        disagree: whether records that say something about the thing under test differ in their verdict.
    """

    verdict: Verdict
    reason: str
    record: Record | None = None
    others: tuple[Record, ...] = ()
    disagree: bool = False

    @property
    def told(self) -> str:
        """The verdicts of all its records, the one that counts first."""
        return ", ".join([self.verdict.value, *(other.verdict.value for other in self.others)])


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something that could not be read, and was left out.

    Attributes:
        where: the file, and the line if there is one.
        what: what was found and what was expected.
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclasses.dataclass(frozen=True)
class Matrix:
    """Everything that a report shows.

    Attributes:
        columns: in the order to show them.
        cells: in the order to show them, suite by suite.
        slots: by cell id and column; no entry where the column has no such cell in its plan.
        excluded: the reason, by cell id and column, where a lane leaves a cell out for good.
        rules: by id; as the newest record that names it words it.
        problems: what could not be read.
        built: when the matrix was merged, UTC.
    """

    columns: tuple[Column, ...]
    cells: tuple[Cell, ...]
    slots: Mapping[tuple[str, ColumnKey], Slot]
    excluded: Mapping[tuple[str, ColumnKey], str]
    rules: Mapping[str, RuleText]
    problems: tuple[Problem, ...]
    built: datetime.datetime

    def slot(self, cell: Cell, column: Column) -> Slot | None:
        """The slot, or None where the column has no such cell in its plan."""
        return self.slots.get((cell.id, column.key))

    def column_slots(self, column: Column, cells: Iterable[Cell] | None = None) -> list[Slot]:
        """The column's slots, of all cells or of the given ones."""
        found = (self.slot(cell, column) for cell in (self.cells if cells is None else cells))
        return [slot for slot in found if slot is not None]

    def tally(self, column: Column, cells: Iterable[Cell] | None = None) -> Tally:
        """How the column's verdicts are spread, over all cells or the given ones."""
        return Tally(Counter(slot.verdict for slot in self.column_slots(column, cells)))

    def unasked(self, column: Column, cells: Iterable[Cell]) -> int:
        """How many of the cells others of the same lane and integration have in their plan, and this column has not.

        What the lane leaves out for good is not among them.
        """
        asked = self._asked[column.key.lane, column.key.integration]
        return sum(
            cell.id in asked and (cell.id, column.key) not in self.slots and (cell.id, column.key) not in self.excluded
            for cell in cells
        )

    @functools.cached_property
    def _asked(self) -> Mapping[tuple[str, str], set[str]]:
        """The cells that some column of a lane and integration has in its plan."""
        asked: dict[tuple[str, str], set[str]] = defaultdict(set)
        for cell, key in self.slots:
            asked[key.lane, key.integration].add(cell)
        return asked

    @functools.cached_property
    def suites(self) -> dict[str, list[Cell]]:
        """The cells by suite, in the order to show them."""
        by_suite: dict[str, list[Cell]] = {}
        for cell in self.cells:
            by_suite.setdefault(cell.suite, []).append(cell)
        return by_suite

    @property
    def disagreements(self) -> list[tuple[Cell, Column, Slot]]:
        """The slots whose records differ in their verdict."""
        found = ((cell, column, self.slot(cell, column)) for column in self.columns for cell in self.cells)
        return [(cell, column, slot) for cell, column, slot in found if slot is not None and slot.disagree]

    @property
    def partial(self) -> list[Column]:
        """The columns that come from a run that did not end as planned."""
        return [column for column in self.columns if column.partial]


UNTESTED = frozenset({Verdict.NOT_RUN, Verdict.NO_DATA, Verdict.ERROR})
"""The verdicts that say nothing about the thing under test."""


@dataclasses.dataclass(frozen=True)
class Tally:
    """A spread of verdicts."""

    counts: Mapping[Verdict, int]

    def __getitem__(self, verdict: Verdict) -> int:
        return self.counts.get(verdict, 0)

    @property
    def total(self) -> int:
        """All slots."""
        return sum(self.counts.values())

    @property
    def untested(self) -> int:
        """Those that say nothing: NOT_RUN, NO_DATA, ERROR."""
        return sum(self[verdict] for verdict in UNTESTED)

    @property
    def ran(self) -> int:
        """Those that say something."""
        return self.total - self.untested

    @property
    def refused(self) -> int:
        """Those that the contract says to refuse, and that were."""
        return self[Verdict.UNSUPPORTED]

    @property
    def tested(self) -> int:
        """Those that ran and apply: a pass or not."""
        return self.total - self.untested - self.refused

    @property
    def broken(self) -> int:
        """FAIL, CRASH and TIMEOUT."""
        return self[Verdict.FAIL] + self[Verdict.CRASH] + self[Verdict.TIMEOUT]

    @property
    def unexpected(self) -> int:
        """Those that make a run exit 1: FAIL, CRASH, TIMEOUT and XPASS."""
        return self.broken + self[Verdict.XPASS]
