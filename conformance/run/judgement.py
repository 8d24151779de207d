"""From what ranks did, and what a check says of it, to a verdict with its reason."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from conformance.model.cut import cut
from conformance.model.judgement import Judgement
from conformance.model.verdict import NotRun, Unsupported, Verdict
from conformance.ranks.outcome import Outcome, RankReport, RankStatus

REASON_HEAD, REASON_TAIL = 2000, 1000
"""Characters of a reason that are kept; what a rank raised can be long."""

_STATUS = 0x8000_0000
"""From here on an exit code is a Windows status, which is looked up in hexadecimal: 0xc0000005, access violation."""

_REFUSAL = f"{Unsupported.__module__}.{Unsupported.__qualname__}"


def judge_outcome(outcome: Outcome) -> Judgement | None:
    """What the way in which ranks ended says by itself; None when every rank returned an observation.

    The first cause speaks: a rank that died or raised goes before peers that were stopped or failed because of it.
    Where all ranks raise Unsupported, the integration refuses by its own documented rule, whatever the case is.
    """
    if outcome.harness_error is not None:
        return Judgement(Verdict.ERROR, _cut(outcome.harness_error))
    by_status: dict[RankStatus, list[RankReport]] = {}
    for report in outcome.reports:
        by_status.setdefault(report.status, []).append(report)
    if died := by_status.get(RankStatus.DIED):
        return Judgement(Verdict.CRASH, "; ".join(f"rank {report.rank} died: {_exit(report)}" for report in died))
    if bad := by_status.get(RankStatus.UNREPORTABLE):
        error = bad[0].error
        return Judgement(
            Verdict.ERROR, f"rank {bad[0].rank} returned what is not plain data: {error.message if error else ''}"
        )
    if raised := by_status.get(RankStatus.RAISED):
        refusals = [report.error.message for report in raised if report.error and report.error.type == _REFUSAL]
        if len(refusals) == len(outcome.reports):
            return Judgement(Verdict.UNSUPPORTED, _cut(refusals[0]), by_integration=True)
        texts = [f"rank {report.rank} raised {_error(report)}" for report in raised]
        return Judgement(Verdict.FAIL, _cut("; ".join(texts)))
    if late := by_status.get(RankStatus.TIMED_OUT):
        ranks = ", ".join(str(report.rank) for report in late)
        return Judgement(Verdict.TIMEOUT, f"rank {ranks} still running at the deadline, after {outcome.seconds:.1f} s")
    if stopped := by_status.get(RankStatus.STOPPED):
        return Judgement(Verdict.ERROR, f"rank {stopped[0].rank} was stopped although no rank had died")
    return None


def judge_check(run_check: Callable[[], None], where: Path) -> Judgement:
    """The verdict that a check comes to.

    Args:
        run_check: calls the check with the observations.
        where: the file of the check, to tell its own mistakes from those of what it calls.
    """
    try:
        run_check()
    except AssertionError as error:
        return Judgement(Verdict.FAIL, _cut(str(error) or f"the check at {_line(error, where)} did not hold"))
    except Unsupported as refusal:
        return Judgement(Verdict.UNSUPPORTED, _cut(str(refusal)))
    except NotRun as lack:
        return Judgement(Verdict.NOT_RUN, f"needs {lack.lacks}", lack.remedy)
    except Exception as error:
        return Judgement(
            Verdict.ERROR, _cut(f"the check at {_line(error, where)} raised {type(error).__name__}: {error}")
        )
    return Judgement(Verdict.PASS)


def modes(outcomes: Sequence[Outcome]) -> str:
    """How the ranks of a cell were started, each way once."""
    return "+".join(dict.fromkeys(outcome.mode for outcome in outcomes))


def _exit(report: RankReport) -> str:
    code = report.exit_code
    if code is None:
        return "exit code unknown"
    if code < 0:
        return f"signal {-code}"
    return f"exit code {code if code < _STATUS else hex(code)} without a report"


def _error(report: RankReport) -> str:
    return f"{report.error.type}: {report.error.message}" if report.error else "an exception"


def _line(error: BaseException, where: Path) -> str:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename) == where:
            return f"{where.name}:{frame.lineno}"
    return where.name


def _cut(text: str) -> str:
    return cut(text, REASON_HEAD, REASON_TAIL)
