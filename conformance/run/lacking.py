"""What keeps a planned cell from being run here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance import integrations
from conformance.hosts import probes
from conformance.hosts.ground import Ground
from conformance.matrix.suite import CAN
from conformance.model.capability import condition_of
from conformance.model.judgement import Judgement
from conformance.model.planned_cell import PlannedCell
from conformance.model.record import Host
from conformance.model.verdict import NotRun, Verdict
from conformance.run import capabilities
from conformance.run.context import RunContext


def lacking(planned: PlannedCell, context: RunContext) -> Judgement | None:
    """Why a cell is not run here: NOT_RUN, or ERROR where the harness is at fault; None if it can be run."""
    if planned.problem:
        return Judgement(Verdict.ERROR, planned.problem)
    host = context.provenance.host
    return (
        _needed(planned.needs, context.ground, host)
        or _excluded(planned, host)
        or _missing(planned.integration, context)
        or _planning(planned.lack)
    )


def _needed(needs: Sequence[str], ground: Ground, host: Host) -> Judgement | None:
    for need in needs:
        probe, _, argument = need.partition(":")
        try:
            if probe == CAN:
                capabilities.check(condition_of(argument), host)
            else:
                probes.check(need, ground)
        except NotRun as lack:
            return _not_run(lack)
        except KeyError:
            return Judgement(Verdict.ERROR, f"no probe is called {need!r}; known: {', '.join(sorted(probes.PROBES))}")
    return None


def _excluded(planned: PlannedCell, host: Host) -> Judgement | None:
    for conditions, reason in planned.cell.excluded_on:
        if all(condition.holds(host.capabilities) for condition in conditions):
            on = ", ".join(map(str, conditions))
            return Judgement(Verdict.NOT_RUN, f"not asked where {on}: {reason}", f"run on a host without {on}")
    return None


def _missing(integration: str, context: RunContext) -> Judgement | None:
    missing = integrations.missing(integration)
    if missing is None:
        return None
    groups = context.matrix.stacks[context.stack].groups
    return Judgement(Verdict.NOT_RUN, f"needs {missing} (not installed)", pip_line(integration, missing, groups))


def _planning(lack: NotRun | None) -> Judgement | None:
    return None if lack is None else _not_run(lack)


def _not_run(lack: NotRun) -> Judgement:
    return Judgement(Verdict.NOT_RUN, f"needs {lack.lacks}", lack.remedy)


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
