"""One cell, start to end."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.matrix.known import explain
from conformance.matrix.known_issue import KnownIssue
from conformance.model.case import Check
from conformance.model.cell import Cell
from conformance.model.cut import cut
from conformance.model.judgement import Judgement
from conformance.model.planned_cell import PlannedCell, PlannedStep
from conformance.model.record import RankRecord, Record
from conformance.model.setting import Observation, Setting
from conformance.model.verdict import Verdict
from conformance.ranks import Job, Outcome, RankPool
from conformance.run.context import RunContext
from conformance.run.judgement import judge_check, judge_outcome, modes
from conformance.run.lacking import lacking
from conformance.run.repeat import repeat_line
from conformance.run.summary import in_short

LOG_LIMIT = 16_000
"""Characters of all logs of a cell together."""

BELIEVED = (Verdict.PASS, Verdict.UNSUPPORTED, Verdict.XFAIL)
"""Verdicts of ranks that ran other cells before; any other is asked for again in ranks that ran nothing."""


@dataclasses.dataclass(frozen=True)
class _Run:
    """One go at a cell."""

    judgement: Judgement
    outcomes: tuple[Outcome, ...] = ()
    observations: Observation = dataclasses.field(default_factory=dict)
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)


def run_cell(planned: PlannedCell, context: RunContext, pool: Callable[[], RankPool]) -> Record:
    """Run a cell and judge it.

    Args:
        pool: opens the rank pool on first use, so that a run of cells that are all NOT_RUN starts nothing.
    """
    cell, lane = planned.cell, context.lane
    started = datetime.datetime.now(datetime.UTC)
    clock = time.perf_counter()
    waited = 0.0
    lack = lacking(planned, context)
    if lack is not None:
        run = _Run(lack)
    else:
        run = _attempt(planned, context, pool(), fresh=False)
        reused = any(outcome.mode == "reused" for outcome in run.outcomes)
        if reused and _in_the_light_of_known_issues(run, planned, context)[0].verdict not in BELIEVED:
            run = _attempt(planned, context, pool(), fresh=True)
        waited = sum(outcome.waited for outcome in run.outcomes)
    judgement, issue = _in_the_light_of_known_issues(run, planned, context)
    reports = [(step, report) for step, outcome in enumerate(run.outcomes) for report in outcome.reports]
    quiet = judgement.verdict is Verdict.PASS
    return Record(
        cell=cell.id,
        suite=cell.suite,
        case=cell.case,
        axes=dict(cell.axes),
        title=cell.title,
        lane=lane.name,
        launcher=lane.launcher,
        transport=context.transport,
        stack=context.stack,
        integration=planned.integration,
        verdict=judgement.verdict,
        reason=judgement.reason,
        remedy=judgement.remedy,
        rules=tuple(context.matrix.rules[rule].as_text() for rule in cell.rules),
        known_issue=issue.as_text() if issue else None,
        started=started.isoformat(timespec="milliseconds"),
        seconds=round(time.perf_counter() - clock - waited, 4),  # the fork server's imports are no cell's
        scenario_seconds=round(
            sum(max((report.seconds for report in outcome.reports), default=0.0) for outcome in run.outcomes), 4
        ),
        rank_mode=modes(run.outcomes),
        ranks=tuple(
            RankRecord(
                step=step,
                rank=report.rank,
                status=report.status.value,
                exit_code=report.exit_code,
                seconds=round(report.seconds, 4),
                error=cut(f"{report.error.type}: {report.error.message}", 300, 200) if report.error else None,
            )
            for step, report in reports
        ),
        observations=in_short(run.observations),
        numbers={name: float(value) for name, value in run.numbers.items()},
        log="" if quiet else _log(run.outcomes),
        stacks="\n".join(f"rank {report.rank}\n{report.stacks}" for _, report in reports if report.stacks)[:LOG_LIMIT],
        repeat=repeat_line(planned, context),
        provenance=context.provenance,
    )


def _in_the_light_of_known_issues(
    run: _Run, planned: PlannedCell, context: RunContext
) -> tuple[Judgement, KnownIssue | None]:
    return explain(
        run.judgement,
        planned.cell,
        context.matrix.known_issues,
        lane=context.lane.name,
        transport=context.transport,
        integration=planned.integration,
        versions=context.provenance.packages,
        host=context.provenance.host,
    )


def _attempt(planned: PlannedCell, context: RunContext, pool: RankPool, *, fresh: bool) -> _Run:
    assert planned.case is not None, planned
    check = planned.case.check
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    outcomes: list[Outcome] = []
    try:
        steps: list[list[Observation]] = []
        for step in planned.steps:
            outcome = pool.run(_job(planned, step, context, folder), fresh=fresh)
            outcomes.append(outcome)
            judgement = judge_outcome(outcome)
            if judgement is not None:
                return _Run(judgement, tuple(outcomes))
            steps.append([report.observation or {} for report in outcome.reports])
        numbers: dict[str, float] = {}
        arguments = _arguments(check, planned.cell, steps, numbers)
        judgement = judge_check(lambda: check(**arguments), Path(inspect.getfile(check)))
        return _Run(judgement, tuple(outcomes), steps[-1][0], numbers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _job(planned: PlannedCell, step: PlannedStep, context: RunContext, folder: Path) -> Job:
    return Job(
        cell=planned.cell.id,
        scenario=step.scenario,
        setting=Setting(
            parameters=step.parameters,
            rank=None,
            world=step.world,
            launcher=context.lane.launcher,
            transport=context.transport,
            device=context.device,
            integration=planned.integration,
            folder=folder,
        ),
        deadline=planned.cell.deadline * context.lane.deadline_factor,
        environment=step.environment,
        cold=step.cold,
    )


def _arguments(
    check: Check, cell: Cell, steps: Sequence[list[Observation]], numbers: dict[str, float]
) -> Mapping[str, Any]:
    offered: dict[str, Any] = {
        "cell": cell,
        "axes": cell.axes,
        "steps": list(steps),
        "observations": steps[-1],
        "measured": numbers,
    }
    return {name: offered[name] for name in inspect.signature(check).parameters}


def _log(outcomes: Sequence[Outcome]) -> str:
    parts = []
    for number, outcome in enumerate(outcomes):
        for report in outcome.reports:
            trace = f"\n{report.error.traceback}" if report.error else ""
            text = f"{report.log}{trace}".strip()
            if text:
                parts.append(f"--- step {number}, rank {report.rank} ---\n{text}\n")
    if not parts:
        return ""
    share = LOG_LIMIT // len(parts)
    return "\n".join(
        part if len(part) <= share else f"{part[: share // 4]}\n[…]\n{part[-share * 3 // 4 :]}" for part in parts
    )
