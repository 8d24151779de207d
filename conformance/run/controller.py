"""The one process of a lane run that keeps records, tells the user, and decides how the run ends."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

import reports
from conformance.model.exit_code import ExitCode, exit_code
from conformance.model.planned_cell import Key
from conformance.model.record import Provenance, Record
from conformance.model.run_header import FILE_NAME, RunHeader, to_text
from conformance.run.console import Console
from conformance.run.item import RECORD_PROPERTY
from conformance.run.lane_run import LaneRun
from conformance.run.record_file import RecordFile, ReportFolderError
from conformance.run.workers import worker_count


class Controller:
    """Registered as a pytest plugin beside the LaneRun, but never in an xdist worker."""

    def __init__(self, config: pytest.Config, run: LaneRun) -> None:
        self.config = config
        self.run = run
        self.folder = run.options.report_folder
        self.listing = run.options.listing
        self.console = Console(quiet=self.listing)
        self.records: list[Record] = list(run.kept)
        self.planned: list[Key] = []
        self.learned = False
        """Whether a record has told what the host can do."""
        self.stopped: str | None = None
        """Why the run ended before its last cell."""
        self.broken = False
        """Whether something other than a cell failed: a suite that cannot be imported, a worker that died."""
        self.file: RecordFile | None = None
        self.clock = time.perf_counter()
        self.started = _now()
        if self.listing:
            config.option.collectonly = True
        else:
            self.file = RecordFile(self.folder, keep=run.options.resume)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """xdist is about to start a worker."""
        node.workerinput.update(self.run.for_worker())

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not self.run.leads_workers or self.listing:
            self._begin([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        if not self.planned:
            self._begin(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """An item's phase ended; the call phase of a cell carries its record."""
        line = dict(report.user_properties).get(RECORD_PROPERTY)
        if line is None:
            if report.failed:
                self.broken = True
                self.console.say(f"error: {report.nodeid}: {report.longreprtext}")
            return
        if report.when != "call":
            return
        record = Record.model_validate_json(str(line))
        self._learn_of_host(record.provenance)
        self.records.append(record)
        self.console.cell(record)
        if self.file is not None:
            try:
                self.file.append(record)
            except ReportFolderError as error:
                self.stopped = str(error)
                pytest.exit(str(error), returncode=int(ExitCode.HARNESS))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if self.stopped is None:
            self.stopped = "stopped by the user" if excinfo.type is KeyboardInterrupt else str(excinfo.value)

    def pytest_internalerror(self, excrepr: object) -> None:
        self.broken = True
        self.console.say(f"error: the harness failed: {excrepr}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.listing:
            session.exitstatus = ExitCode.AS_EXPECTED if self.planned else ExitCode.HARNESS
            return
        if not self.planned and self.file is None:
            return
        missing = len(self.planned) - len(self.records)
        if missing > 0 and self.stopped is None and self.planned:
            self.stopped = f"{missing} planned cells were not reported"
        self.console.end(self.records, partial=self.stopped, seconds=time.perf_counter() - self.clock)
        if not self.records:
            more = f"; PYTEST_ADDOPTS is {words!r}" if (words := os.environ.get("PYTEST_ADDOPTS")) else ""
            self.console.say(f"error: no cell ran; --list shows what there is{more}")
        self._write_reports()
        if self.file is not None:
            self.file.close()
        code = exit_code(record.verdict for record in self.records)
        if code is ExitCode.AS_EXPECTED and (self.broken or self.stopped is not None):
            code = ExitCode.HARNESS
        session.exitstatus = code

    def _learn_of_host(self, provenance: Provenance) -> None:
        """From the first record that tells what the host can do, so that the run's header does too."""
        host = provenance.host
        if self.learned or not (host.capabilities or host.unknown):
            return
        self.learned = True
        for name, why in host.unknown.items():
            self.console.say(f"not known of this host: {name} ({why})")
        self.run.take_over(provenance)
        self._write_headers(finished=None)

    def _begin(self, nodeids: Sequence[str]) -> None:
        chosen = set(nodeids)  # Not all, where the user has also given -k or --deselect.
        keys = [planned.key for planned in self.run.planned if planned.name in chosen]
        if self.listing:
            self.planned = keys
            for cell, _ in keys:
                self.console.say(cell)
            return
        self.planned = [*((record.cell, record.integration) for record in self.records), *keys]
        here = self.run.context
        kept = f" ({len(self.records)} kept from before)" if self.records else ""
        count = max(1, worker_count(self.config))
        spread = "1 worker" if count == 1 else f"{count} workers"
        self.console.begin(f"{here.lane.name}, {here.transport}, stack {here.stack}, {spread}{kept}", len(keys))
        self._write_headers(finished=None)

    def _write_reports(self) -> None:
        try:
            headers = self._write_headers(finished=None if self.stopped else _now())
            written = reports.write_all(self.records, headers, self.folder)
            self.console.say(f"report: {written['index.html'].resolve().as_uri()}")
        except (reports.WriteError, OSError) as error:
            self.broken = True
            self.console.say(f"error: {error}")

    def _write_headers(self, *, finished: str | None) -> list[RunHeader]:
        """Say in the folder what this run set out to do: a header an integration."""
        here = self.run.context
        shard = self.run.options.shard
        headers = []
        for integration in self.run.options.integrations:
            header = RunHeader(
                run=here.provenance.run,
                lane=here.lane.name,
                launcher=here.lane.launcher,
                transport=here.transport,
                stack=here.stack,
                integration=integration,
                shard=None if shard == "1/1" else shard,
                planned=tuple(cell for cell, driver in self.planned if driver == integration),
                started=self.started,
                finished=finished,
                interrupted=self.stopped is not None,
                note=self.stopped or "",
                provenance=here.provenance,
            )
            headers.append(header)
            name = FILE_NAME if len(self.run.options.integrations) == 1 else f"run.{integration}.json"
            (self.folder / name).write_text(to_text(header), encoding="utf-8")
        return headers


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
