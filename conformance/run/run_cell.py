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

from conformance import integrations
from conformance.hosts import probes
from conformance.matrix import Matrix
from conformance.matrix.known_issue import KnownIssue
from conformance.matrix.lane import Lane
from conformance.matrix.suite import CAN
from conformance.model.capability import condition_of
from conformance.model.case import Step, plan_of
from conformance.model.cell import Cell
from conformance.model.cut import cut
from conformance.model.record import Host, Provenance, RankRecord, Record
from conformance.model.setting import Observation, Setting
from conformance.model.verdict import NotRun, Verdict
from conformance.ranks import Job, Outcome, RankPool
from conformance.run import capabilities
from conformance.run.judgement import Judgement, judge_check, judge_outcome, modes
from conformance.run.known import explain
from conformance.run.summary import in_short

LOG_LIMIT = 16_000
"""Characters of all logs of a cell together."""

BELIEVED = (Verdict.PASS, Verdict.UNSUPPORTED, Verdict.XFAIL)
"""Verdicts of ranks that ran other cells before; any other is asked for again in ranks that ran nothing."""

Check = Callable[..., None]


@dataclasses.dataclass(frozen=True)
class Circumstances:
    """What is the same for all cells of a run in one process."""

    matrix: Matrix
    lane: Lane
    transport: str
    device: str
    stack: str
    provenance: Provenance
    repeat: Callable[[Cell, str], str]
    """The command that repeats a cell with an integration."""
    cold: bool = False
    """Whether every cell runs in fresh interpreters."""


@dataclasses.dataclass(frozen=True)
class _Run:
    """One go at a cell."""

    judgement: Judgement
    outcomes: tuple[Outcome, ...] = ()
    observations: Observation = dataclasses.field(default_factory=dict)
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)


def run_cell(
    cell: Cell, check: Check, integration: str, circumstances: Circumstances, pool: Callable[[], RankPool]
) -> Record:
    """Run `cell` and judge it.

    Args:
        pool: opens the rank pool on first use, so that a run of cells that are all NOT_RUN starts nothing.
    """
    started = datetime.datetime.now(datetime.UTC)
    clock = time.perf_counter()
    waited = 0.0
    steps = _steps(cell, check, integration, circumstances)
    if isinstance(steps, Judgement):
        run = _Run(steps)
    else:
        run = _attempt(cell, check, steps, integration, circumstances, pool(), fresh=False)
        reused = any(outcome.mode == "reused" for outcome in run.outcomes)
        if reused and _in_the_light_of_known_issues(run, cell, integration, circumstances)[0].verdict not in BELIEVED:
            run = _attempt(cell, check, steps, integration, circumstances, pool(), fresh=True)
        waited = sum(outcome.waited for outcome in run.outcomes)
    judgement, issue = _in_the_light_of_known_issues(run, cell, integration, circumstances)
    reports = [(step, report) for step, outcome in enumerate(run.outcomes) for report in outcome.reports]
    quiet = judgement.verdict is Verdict.PASS
    return Record(
        cell=cell.id,
        suite=cell.suite,
        case=cell.case,
        axes=dict(cell.axes),
        title=cell.title,
        lane=circumstances.lane.name,
        launcher=circumstances.lane.launcher,
        transport=circumstances.transport,
        stack=circumstances.stack,
        integration=integration,
        verdict=judgement.verdict,
        reason=judgement.reason,
        remedy=judgement.remedy,
        rules=tuple(circumstances.matrix.rules[rule].as_text() for rule in cell.rules),
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
        repeat=circumstances.repeat(cell, integration),
        provenance=circumstances.provenance,
    )


def _in_the_light_of_known_issues(
    run: _Run, cell: Cell, integration: str, circumstances: Circumstances
) -> tuple[Judgement, KnownIssue | None]:
    return explain(
        run.judgement,
        cell,
        circumstances.matrix.known_issues,
        lane=circumstances.lane.name,
        transport=circumstances.transport,
        integration=integration,
        versions=circumstances.provenance.packages,
        host=circumstances.provenance.host,
    )


def _steps(cell: Cell, check: Check, integration: str, circumstances: Circumstances) -> Sequence[Step] | Judgement:
    """The steps of a cell, or what this host lacks for them."""
    plan = plan_of(check)
    assert plan is not None, check
    lane = circumstances.lane
    host = circumstances.provenance.host
    lack = (
        _lacking([f"os:{lane.os}", *lane.needs, *cell.needs], host)
        or _excluded(cell, host)
        or _missing(integration, circumstances)
    )
    if lack is not None:
        return lack
    try:
        steps = plan(cell.axes)
    except NotRun as lacks:
        return Judgement(Verdict.NOT_RUN, f"needs {lacks.lacks}", lacks.remedy)
    if circumstances.device == "cuda":
        lack = _lacking([f"gpus:{max(step.devices(cell.axes) for step in steps)}"], host)
    return steps if lack is None else lack


def _lacking(needs: Sequence[str], host: Host) -> Judgement | None:
    for need in needs:
        probe, _, argument = need.partition(":")
        try:
            if probe == CAN:
                capabilities.check(condition_of(argument), host)
            else:
                probes.check(need)
        except NotRun as lack:
            return Judgement(Verdict.NOT_RUN, f"needs {lack.lacks}", lack.remedy)
        except KeyError:
            return Judgement(Verdict.ERROR, f"no probe is called {need!r}; known: {', '.join(sorted(probes.PROBES))}")
    return None


def _excluded(cell: Cell, host: Host) -> Judgement | None:
    for conditions, reason in cell.excluded_on:
        if all(condition.holds(host.capabilities) for condition in conditions):
            on = ", ".join(map(str, conditions))
            return Judgement(Verdict.NOT_RUN, f"not asked where {on}: {reason}", f"run on a host without {on}")
    return None


def _missing(integration: str, circumstances: Circumstances) -> Judgement | None:
    missing = integrations.missing(integration)
    if missing is None:
        return None
    groups = circumstances.matrix.stacks[circumstances.stack].groups
    return Judgement(Verdict.NOT_RUN, f"needs {missing} (not installed)", pip_line(integration, missing, groups))


def pip_line(integration: str, missing: str, groups: Mapping[str, Mapping[str, str]]) -> str:
    """The command that installs what `integration` drives: the stack's exact versions, where it pins any. Pure.

    Args:
        missing: the distribution that was not found.
        groups: those of the stack, exact versions by distribution.
    """
    extra = integrations.entry(integration).extra
    if extra is None:
        return f"python -m pip install {missing}"
    pins = [f"{name}=={version}" for name, version in groups.get(extra, {}).items()]
    wanted = " ".join(pins) or f'"deepspeed-conformance[{extra}]"'
    return f"python -m pip install {wanted}"


def _attempt(
    cell: Cell,
    check: Check,
    planned: Sequence[Step],
    integration: str,
    circumstances: Circumstances,
    pool: RankPool,
    *,
    fresh: bool,
) -> _Run:
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    outcomes: list[Outcome] = []
    try:
        steps: list[list[Observation]] = []
        for number, step in enumerate(planned):
            job = _job(cell, step, number, integration, circumstances, folder)
            outcome = pool.run(job, fresh=fresh)
            outcomes.append(outcome)
            judgement = judge_outcome(outcome)
            if judgement is not None:
                return _Run(judgement, tuple(outcomes))
            steps.append([report.observation or {} for report in outcome.reports])
        numbers: dict[str, float] = {}
        arguments = _arguments(check, cell, steps, numbers)
        judgement = judge_check(lambda: check(**arguments), Path(inspect.getfile(check)))
        return _Run(judgement, tuple(outcomes), steps[-1][0], numbers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _job(cell: Cell, step: Step, number: int, integration: str, circumstances: Circumstances, folder: Path) -> Job:
    return Job(
        cell=cell.id,
        scenario=step.scenario_name,
        setting=Setting(
            parameters={**cell.axes, **step.parameters},
            rank=None,
            world=step.ranks(cell.axes),
            launcher=circumstances.lane.launcher,
            transport=circumstances.transport,
            device=circumstances.device,
            integration=integration,
            folder=folder,
        ),
        deadline=cell.deadline * circumstances.lane.deadline_factor,
        environment=step.environment,
        cold=step.cold or circumstances.cold,
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
