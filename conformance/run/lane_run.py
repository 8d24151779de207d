"""One process of a lane run: it plans the selected cells, makes pytest items of them, and runs them."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil
import pytest

from conformance import integrations
from conformance.hosts import capabilities as host
from conformance.hosts import probes, provenance
from conformance.hosts.bundles import Bundles
from conformance.hosts.device_slice import device_slice
from conformance.hosts.ground import Ground
from conformance.matrix import Matrix, MatrixError, load_matrix
from conformance.matrix.lane import Lane
from conformance.model.planned_cell import Key, PlannedCell
from conformance.model.record import Provenance, Record
from conformance.model.verdict import NotRun, Verdict
from conformance.ranks import RankPool
from conformance.reference.errors import MpiError
from conformance.run import capabilities
from conformance.run.context import RunContext
from conformance.run.item import CellItem
from conformance.run.lane_pool import check_mode, open_lane_pool, ranks_mode
from conformance.run.options import RunOptions
from conformance.run.planning import plan_cells, to_do
from conformance.run.record_file import RECORDS, recorded
from conformance.run.run_cell import run_cell
from conformance.run.selection import PROFILES, select
from conformance.run.workers import worker_count, workers

LOOK_AHEAD = 8
"""Cells to come whose ranks are worth starting now."""


class LaneRun:
    """What the controller and every xdist worker of a lane run have in common.

    Attributes:
        planned: the cells to run.
        done: what --resume keeps: cells that need no run.
        kept: their records; only in the controller.
    """

    def __init__(
        self,
        config: pytest.Config,
        options: RunOptions,
        context: RunContext,
        planned: Sequence[PlannedCell],
        done: frozenset[Key],
        kept: Sequence[Record],
    ) -> None:
        self.config = config
        self.options = options
        self.context = context
        self.planned = planned
        self.done = done
        self.kept = kept
        self._pool: RankPool | None = None
        self._asked = False

    @classmethod
    def prepare(cls, config: pytest.Config, options: RunOptions) -> LaneRun:
        """Check the options against the matrix, and plan the cells that they ask for.

        An xdist worker takes from the controller what must be the same for all.

        Raises:
            MatrixError: a matrix file or an option is wrong, or the matrix and a suite do not know the same cases.
            RecordFileError: --resume found a file that holds no records.
        """
        matrix = load_matrix(options.matrices)
        if not options.known_issues:
            matrix = dataclasses.replace(matrix, known_issues=())
        lane = matrix.lanes[_one_of("--lane", options.lane, matrix.lanes)]
        transport = _one_of("--transport", options.transport or lane.transports[0], lane.transports)
        stack = _one_of("--stack", options.stack, matrix.stacks)
        if matrix.stacks[stack].stack.refused:
            raise MatrixError(f"--stack {stack}: {matrix.stacks[stack].stack.refused}")
        check_mode(options.ranks, lane)
        for name in options.integrations:
            _one_of("--integration", name, integrations.names())
        _one_of("--profile", options.wanted.profile, PROFILES)
        given = getattr(config, "workerinput", {})
        context = RunContext(
            matrix=matrix,
            lane=lane,
            transport=transport,
            device=_device(lane),
            stack=stack,
            provenance=Provenance.model_validate_json(given["conformance_provenance"])
            if given
            else provenance.collect(
                _packages(matrix, stack, options.integrations), host_class=options.host_class, mpi=_mpi(lane)
            ),
            ground=Ground(
                devices=_own_devices(config, lane),
                bundles=Bundles.of_options(options.exported, options.imported, lane.name),
            ),
            cold=options.ranks == "cold",
        )
        kept = _current(options.report_folder, context) if options.resume and not given else []
        if given:
            done = frozenset((cell, integration) for cell, integration in json.loads(given["conformance_done"]))
        else:
            done = frozenset((record.cell, record.integration) for record in kept)
        pairs = to_do(select(matrix, lane, options.wanted), options.integrations, done)
        return cls(config, options, context, plan_cells(pairs, context, options.suites), done, kept)

    def for_worker(self) -> dict[str, str]:
        """What the controller hands to an xdist worker."""
        return {
            "conformance_provenance": self.context.provenance.model_dump_json(),
            "conformance_done": json.dumps(sorted(self.done)),
        }

    @property
    def leads_workers(self) -> bool:
        """Whether xdist workers run the cells, and this process none."""
        return bool(worker_count(self.config)) and not hasattr(self.config, "workerinput")

    def workers(self) -> int:
        """How many xdist workers suit this run on this host; 0 where this process had best run all cells itself."""
        if self.options.listing or self.config.getoption("collectonly") or not self._lane_is_here():
            return 0
        on_gpus = self.context.device == "cuda"
        needs = [need for planned in self.planned for need in planned.needs]
        count = workers(
            cores=host.cores(),
            memory=min(host.memory_bytes(), psutil.virtual_memory().available),
            gpus=len(probes.gpus()) if on_gpus else None,
            takes=[int(need.removeprefix("gpus:")) for need in needs if need.startswith("gpus:")],
            cells=len(self.planned),
            ranks=ranks_mode(self.options.ranks, self.context.lane),
        )
        return count if count > 1 else 0

    def pytest_sessionstart(self) -> None:
        """Start what ranks need as early as can be, so that their imports overlap what pytest does until then."""
        if not self.options.listing and not self.leads_workers and self.planned and self._lane_is_here():
            self.pool()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool | None:
        """The items are the planned cells: nothing is looked for in files or folders."""
        if self.leads_workers and not self.options.listing:
            return None
        session.items = [CellItem.of(planned, self.answer, session) for planned in self.planned]
        hook = session.config.hook
        hook.pytest_collection_modifyitems(session=session, config=session.config, items=session.items)
        hook.pytest_collection_finish(session=session)
        session.testscollected = len(session.items)
        return True

    def pytest_sessionfinish(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def answer(self, item: CellItem) -> Record:
        """Run an item's cell."""
        self._learn_of_host()
        self._expect_after(item)
        return run_cell(item.planned, self.context, self.pool)

    def pool(self) -> RankPool:
        """The rank pool of this process, opened on first use."""
        if self._pool is None:
            suites = dict.fromkeys(planned.cell.suite for planned in self.planned)
            pools = max(1, worker_count(self.config))
            self._pool = open_lane_pool(self.options.ranks, self.context, self.options.integrations, suites, pools)
        return self._pool

    def _learn_of_host(self) -> None:
        """Before the first cell: ask a rank what this host can do. Each xdist worker asks, for it may be elsewhere."""
        if self._asked:
            return
        self._asked = True
        if not self._lane_is_here():
            return
        here = self.context
        told = capabilities.told_by(
            self.pool(),
            here.provenance.host,
            launcher=here.lane.launcher,
            transport=here.transport,
            device=here.device,
        )
        self.take_over(here.provenance.model_copy(update={"host": told}))

    def take_over(self, provenance: Provenance) -> None:
        """Let the records to come have this provenance."""
        self.context = dataclasses.replace(self.context, provenance=provenance)

    def _expect_after(self, item: CellItem) -> None:
        """Tell the pool which worlds come next, so that it can start ranks ahead; with xdist, about what comes next."""
        if self._pool is not None:
            items = item.session.items
            here = items.index(item) + 1
            later = [other.planned for other in items[here : here + LOOK_AHEAD] if isinstance(other, CellItem)]
            self._pool.expect([world for planned in later for world in planned.worlds])

    def _lane_is_here(self) -> bool:
        try:
            for need in (f"os:{self.context.lane.os}", *self.context.lane.needs):
                probes.check(need, self.context.ground)
        except NotRun:
            return False  # Each cell will say what is missing.
        return True


def _one_of(option: str, found: str, known: Iterable[str]) -> str:
    names = list(known)
    if found not in names:
        raise MatrixError(f"{option}: found {found!r}, expected one of {', '.join(names)}")
    return found


def _device(lane: Lane) -> str:
    if lane.device == "auto":
        return "cuda" if probes.gpus() else "cpu"
    return lane.device


def _own_devices(config: pytest.Config, lane: Lane) -> tuple[str, ...] | None:
    """An xdist worker's own slice of the GPUs; None where there is nothing to share out.

    Raises:
        MatrixError: more workers than GPUs.
    """
    given = getattr(config, "workerinput", None)
    count = worker_count(config)
    if not count or _device(lane) != "cuda" or not probes.gpus():
        return None
    number = 0 if given is None else int(given["workerid"].removeprefix("gw"))
    try:
        mine = device_slice(probes.visible_devices(len(probes.gpus())), number, count)
    except ValueError as error:
        raise MatrixError(str(error)) from None
    return None if given is None else tuple(mine)


def _mpi(lane: Lane) -> str | None:
    """Vendor and version of the lane's MPI; None where there is none, which each cell will say.

    Raises:
        MatrixError: mpiexec and mpi4py's library are of different MPIs: no cell could say anything true.
    """
    if lane.launcher != "mpi":
        return None
    try:
        probes.check(f"os:{lane.os}")
        found = probes.mpi()
    except NotRun:
        return None
    except MpiError as error:
        raise MatrixError(str(error)) from None
    return f"{found.vendor} {found.version}"


def _packages(matrix: Matrix, stack: str, driven: Sequence[str]) -> list[str]:
    """The distributions whose versions count: those of the stack, and what the integrations drive."""
    file = matrix.stacks[stack]
    groups = [names for group, names in file.groups.items() if group != "develop"]
    libraries = [library for name in driven for library in integrations.entry(name).libraries]
    return list(dict.fromkeys([*file.packages, *(name for names in groups for name in names), *libraries]))


def _current(folder: Path, here: RunContext) -> list[Record]:
    """The records of an earlier run that say what this one would: same column, same sources, same versions."""

    def still_true(record: Record) -> bool:
        return (
            (record.lane, record.transport, record.stack) == (here.lane.name, here.transport, here.stack)
            and record.provenance.git_commit == here.provenance.git_commit
            and record.provenance.packages == here.provenance.packages
            and record.verdict not in (Verdict.ERROR, Verdict.NOT_RUN)
        )

    if not (folder / RECORDS).exists():
        print(f"{folder}: no records to resume from; starting anew", file=sys.stderr)
        return []
    return [record for record in recorded(folder) if still_true(record)]
