"""One process of a lane run: it turns cells into pytest items and runs them."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import pytest

from conformance import integrations
from conformance.hosts import bundles, probes, provenance
from conformance.hosts.device_slice import device_slice
from conformance.matrix import MATRICES, Matrix, MatrixError, load_matrix
from conformance.matrix.lane import Lane
from conformance.model.case import plan_of
from conformance.model.cell import Cell
from conformance.model.record import Provenance, Record, to_line
from conformance.model.verdict import UNEXPECTED, NotRun, Verdict
from conformance.ranks import RankPool
from conformance.reference.errors import MpiError
from conformance.run import capabilities
from conformance.run.items import DEFAULT_INTEGRATION, PARAMETER, Key, item_name, key_of_node
from conformance.run.lane_pool import check_mode, open_lane_pool
from conformance.run.record_file import RECORDS, recorded
from conformance.run.run_cell import Circumstances, run_cell
from conformance.run.selection import PROFILES, Selection, parse_shard, select

RECORD_PROPERTY = "conformance_record"
"""The user property of an item's report that carries the record."""


EVERY_CASE = ("reference", "deepspeed")
"""The integrations that are driven through all cases; the others through core cases."""


def drives(integration: str, cell: Cell) -> bool:
    """Whether a cell is one for an integration. Pure."""
    if cell.integrations is not None:
        return integration in cell.integrations
    return cell.core or integration in EVERY_CASE


LOOK_AHEAD = 8
"""Cells to come whose ranks are worth starting now."""


class LaneRun:
    """What the controller and every xdist worker of a lane run have in common.

    Attributes:
        done: what --resume keeps: (cell id, integration) pairs that need no run.
        kept: their records; only in the controller.
    """

    def __init__(
        self,
        config: pytest.Config,
        cells: Sequence[Cell],
        driven: Sequence[str],
        circumstances: Circumstances,
        done: frozenset[Key],
        kept: Sequence[Record],
    ) -> None:
        self.config = config
        self.cells = cells
        self.integrations = driven
        self.circumstances = circumstances
        self.done = done
        self.kept = kept
        self._pool: RankPool | None = None
        self._asked = False

    @classmethod
    def from_config(cls, config: pytest.Config) -> LaneRun:
        """Read the options; an xdist worker takes from the controller what must be the same for all.

        Raises:
            MatrixError: a matrix file or an option is wrong.
            RecordFileError: --resume found a file that holds no records.
        """
        matrix = load_matrix(Path(config.getoption("matrices") or MATRICES))
        if config.getoption("no_known_issues"):
            matrix = dataclasses.replace(matrix, known_issues=())
        lane = _one_of("--lane", config.getoption("lane"), matrix.lanes)
        lane_value = matrix.lanes[lane]
        transport = config.getoption("transport") or lane_value.transports[0]
        _one_of("--transport", transport, lane_value.transports)
        stack = _one_of("--stack", config.getoption("stack"), matrix.stacks)
        if matrix.stacks[stack].stack.refused:
            raise MatrixError(f"--stack {stack}: {matrix.stacks[stack].stack.refused}")
        check_mode(config.getoption("ranks"), lane_value)
        driven = list(dict.fromkeys(config.getoption("integration") or [DEFAULT_INTEGRATION]))
        for name in driven:
            _one_of("--integration", name, integrations.names())
        wanted = Selection(
            suites=config.getoption("suite"),
            globs=config.getoption("cell"),
            profile=_one_of("--profile", config.getoption("profile"), PROFILES),
            part=parse_shard(config.getoption("shard")),
        )
        given = getattr(config, "workerinput", {})
        _own_devices(config, lane_value)
        bundles.announce(config.getoption("export_checkpoints"), config.getoption("import_checkpoints"), lane)
        circumstances = Circumstances(
            matrix=matrix,
            lane=lane_value,
            transport=transport,
            device=_device(lane_value),
            stack=stack,
            provenance=Provenance.model_validate_json(given["conformance_provenance"])
            if given
            else provenance.collect(
                _packages(matrix, stack, driven), host_class=config.getoption("host_class"), mpi=_mpi(lane_value)
            ),
            repeat=_Repeat(lane, transport if transport != lane_value.transports[0] else None, stack),
            cold=config.getoption("ranks") == "cold",
        )
        kept = _current(report_folder(config), circumstances) if config.getoption("resume") and not given else []
        done: set[Key] | None = (
            {(cell, driver) for cell, driver in json.loads(given["conformance_done"])} if given else None
        )
        return cls(
            config=config,
            cells=select(matrix, lane_value, wanted),
            driven=driven,
            circumstances=circumstances,
            done=frozenset({(record.cell, record.integration) for record in kept} if done is None else done),
            kept=kept,
        )

    def for_worker(self) -> dict[str, str]:
        """What the controller hands to an xdist worker."""
        return {
            "conformance_provenance": self.circumstances.provenance.model_dump_json(),
            "conformance_done": json.dumps(sorted(self.done)),
        }

    def make_items(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize a check with the selected cells of its case.

        Raises:
            pytest.UsageError: the matrix does not know the case.
        """
        suite = metafunc.module.__name__.rpartition("test_")[2]
        case = metafunc.function.__name__.removeprefix("test_")
        if not any((cell.suite, cell.case) == (suite, case) for cell in self.circumstances.matrix.cells):
            raise pytest.UsageError(
                f"{metafunc.module.__file__}: test_{case}: no such [[case]] in matrices/suites/{suite}.toml"
            )
        pairs = [
            (cell, integration)
            for integration in self.integrations
            for cell in self.cells
            if (cell.suite, cell.case) == (suite, case) and drives(integration, cell)
        ]
        # A check's arguments come from the run, not from fixtures: only the cell is pytest's.
        metafunc.fixturenames[:] = [PARAMETER]
        metafunc.parametrize(PARAMETER, pairs, ids=[item_name(*pair) for pair in pairs])

    def pytest_sessionstart(self) -> None:
        """Start what ranks need before collection, so that their imports overlap it."""
        leads_workers = bool(self.config.getoption("numprocesses", None)) and not hasattr(self.config, "workerinput")
        if not self.config.getoption("list_cells") and not leads_workers and self.cells and self._lane_is_here():
            self.pool()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what an earlier run has answered, and cases that have no cell here."""
        for item in items:
            item.extra_keyword_matches.add(item.nodeid)
        dropped = [item for item in items if key_of_node(item.nodeid) in self.done or not _has_cell(item)]
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            gone = set(dropped)
            items[:] = [item for item in items if item not in gone]

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Run a cell instead of calling its check as a plain test."""
        if plan_of(pyfuncitem.obj) is None:
            return None
        cell, integration = cast(tuple[Cell, str], pyfuncitem.callspec.params[PARAMETER])
        self._learn_of_host()
        self._expect_after(pyfuncitem)
        record = run_cell(cell, pyfuncitem.obj, integration, self.circumstances, self.pool)
        pyfuncitem.user_properties.append((RECORD_PROPERTY, to_line(record)))
        if record.verdict in UNEXPECTED or record.verdict is Verdict.ERROR:
            pytest.fail(f"{record.verdict}: {record.reason}\nrepeat: {record.repeat}", pytrace=False)
        if record.verdict is Verdict.XFAIL:
            pytest.xfail(record.reason)
        if record.verdict in (Verdict.NOT_RUN, Verdict.UNSUPPORTED):
            pytest.skip(f"{record.verdict}: {record.reason}")
        return True

    def pytest_sessionfinish(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def pool(self) -> RankPool:
        """The rank pool of this process, opened on first use."""
        if self._pool is None:
            self._pool = open_lane_pool(
                self.config.getoption("ranks"),
                self.circumstances,
                self.integrations,
                dict.fromkeys(cell.suite for cell in self.cells),
            )
        return self._pool

    def _learn_of_host(self) -> None:
        """Before the first cell: ask a rank what this host can do. Each xdist worker asks, for it may be elsewhere."""
        if self._asked:
            return
        self._asked = True
        if not self._lane_is_here():
            return
        here = self.circumstances
        host = capabilities.told_by(
            self.pool(),
            here.provenance.host,
            launcher=here.lane.launcher,
            transport=here.transport,
            device=here.device,
        )
        self.take_over(here.provenance.model_copy(update={"host": host}))

    def take_over(self, provenance: Provenance) -> None:
        """Let the records to come have this provenance."""
        self.circumstances = dataclasses.replace(self.circumstances, provenance=provenance)

    def _expect_after(self, item: pytest.Item) -> None:
        """Tell the pool which worlds come next, so that it can start ranks ahead; with xdist, about what comes next."""
        if self._pool is not None:
            items = item.session.items
            here = items.index(item) + 1
            self._pool.expect([world for later in items[here : here + LOOK_AHEAD] for world in worlds_of(later)])

    def _lane_is_here(self) -> bool:
        try:
            for need in (f"os:{self.circumstances.lane.os}", *self.circumstances.lane.needs):
                probes.check(need)
        except NotRun:
            return False  # Each cell will say what is missing.
        return True


class _Repeat:
    """The command that repeats one cell."""

    def __init__(self, lane: str, transport: str | None, stack: str) -> None:
        self._words = ["python", "-m", "nox", "-s", lane, "--"]
        if transport is not None:
            self._words += ["--transport", transport]
        if stack != "pinned":
            self._words += ["--stack", stack]

    def __call__(self, cell: Cell, integration: str) -> str:
        extra = [] if integration == DEFAULT_INTEGRATION else ["--integration", integration]
        # Double quotes work in sh, PowerShell and cmd alike; ids hold nothing that any of them would expand.
        return " ".join([*map(shlex.quote, self._words + extra), "--cell", f'"{cell.id}"'])


def report_folder(config: pytest.Config) -> Path:
    """Where the run writes, from --report-folder or the lane's name."""
    return Path(config.getoption("report_folder") or Path("results") / config.getoption("lane"))


def _one_of(option: str, found: str, known: Iterable[str]) -> str:
    names = list(known)
    if found not in names:
        raise MatrixError(f"{option}: found {found!r}, expected one of {', '.join(names)}")
    return found


def worlds_of(item: pytest.Item) -> list[int]:
    """The sizes of the rank sets that a cell's steps will take from the reservoir, in order; none for another test."""
    if not isinstance(item, pytest.Function) or (plan := plan_of(item.obj)) is None:
        return []
    cell, _ = cast(tuple[Cell, str], item.callspec.params[PARAMETER])
    try:
        steps = plan(cell.axes)
    except NotRun:
        return []
    return [step.ranks(cell.axes) for step in steps if not step.cold]


def _has_cell(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is None or isinstance(callspec.params.get(PARAMETER), tuple)


def _device(lane: Lane) -> str:
    if lane.device == "auto":
        return "cuda" if probes.gpus() else "cpu"
    return lane.device


def _own_devices(config: pytest.Config, lane: Lane) -> None:
    """Leave an xdist worker its own slice of the GPUs, and refuse more workers than there are GPUs."""
    workers = (
        config.workerinput["workercount"] if hasattr(config, "workerinput") else config.getoption("numprocesses", None)
    )
    if not workers or _device(lane) != "cuda" or not probes.gpus():
        return
    number = int(config.workerinput["workerid"].removeprefix("gw")) if hasattr(config, "workerinput") else 0
    try:
        mine = device_slice(probes.visible_devices(len(probes.gpus())), number, workers)
    except ValueError as error:
        raise MatrixError(str(error)) from None
    if hasattr(config, "workerinput"):
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(mine)
        probes.gpus.cache_clear()


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


def _current(folder: Path, here: Circumstances) -> list[Record]:
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
