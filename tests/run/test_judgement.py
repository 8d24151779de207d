"""From outcomes and checks to verdicts, known issues and exit codes."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from conformance.matrix.known import explain
from conformance.matrix.known_issue import KnownIssue
from conformance.model.cell import Cell
from conformance.model.exit_code import ExitCode, exit_code
from conformance.model.judgement import Judgement
from conformance.model.record import Host
from conformance.model.verdict import NotRun, Unsupported, Verdict
from conformance.ranks.outcome import Outcome, RankError, RankReport, RankStatus
from conformance.run.judgement import judge_check, judge_outcome
from tests.reports import factory

CELL = Cell(suite="zero", case="train", axes={"stage": 3}, title="t", rules=("ZERO-01",), deadline=1.0)


def outcome(*reports: RankReport, harness_error: str | None = None) -> Outcome:
    return Outcome(reports, seconds=12.34, mode="forked", harness_error=harness_error)


def returned(rank: int) -> RankReport:
    return RankReport(rank, RankStatus.RETURNED, observation={})


def raised(rank: int, text: str) -> RankReport:
    return RankReport(rank, RankStatus.RAISED, error=RankError("ValueError", text, "Traceback …"))


late = [RankReport(rank, RankStatus.TIMED_OUT) for rank in (0, 1)]
odd = RankReport(1, RankStatus.UNREPORTABLE, error=RankError("TypeError", "a lambda", ""))


@pytest.mark.parametrize(
    ("ended", "verdict", "reason"),
    [
        (outcome(harness_error="the fork server died"), Verdict.ERROR, "the fork server died"),
        (outcome(returned(0), RankReport(1, RankStatus.DIED, exit_code=-9)), Verdict.CRASH, "rank 1 died: signal 9"),
        (outcome(returned(0), RankReport(1, RankStatus.DIED)), Verdict.CRASH, "rank 1 died: exit code unknown"),
        (outcome(RankReport(0, RankStatus.DIED, exit_code=0xC0000005)), Verdict.CRASH, "exit code 0xc0000005 without"),
        (outcome(raised(0, "reset"), RankReport(1, RankStatus.DIED, exit_code=0)), Verdict.CRASH, "without a report"),
        (outcome(raised(0, "a"), raised(1, "b")), Verdict.FAIL, "rank 0 raised ValueError: a; rank 1"),
        (outcome(raised(0, "a"), RankReport(1, RankStatus.STOPPED)), Verdict.FAIL, "rank 0 raised ValueError: a"),
        (outcome(*late), Verdict.TIMEOUT, "rank 0, 1 still running"),
        (outcome(returned(0), odd), Verdict.ERROR, "a lambda"),
    ],
)  # fmt: skip
def test_the_first_cause_speaks(ended: Outcome, verdict: Verdict, reason: str) -> None:
    judgement = judge_outcome(ended)
    assert judgement is not None
    assert (judgement.verdict, reason in judgement.reason) == (verdict, True), judgement


def refused(rank: int) -> RankReport:
    return RankReport(
        rank, RankStatus.RAISED, error=RankError("conformance.model.verdict.Unsupported", "GPUs only", "")
    )


def test_a_refusal_of_the_integration_in_every_rank_is_its_verdict() -> None:
    judgement = judge_outcome(outcome(refused(0), refused(1)))
    assert judgement == Judgement(Verdict.UNSUPPORTED, "GPUs only", by_integration=True)
    for mixed in (outcome(refused(0), raised(1, "b")), outcome(refused(0), RankReport(1, RankStatus.STOPPED))):
        judgement = judge_outcome(mixed)
        assert judgement is not None and judgement.verdict is Verdict.FAIL


def test_observations_of_all_ranks_go_to_the_check() -> None:
    assert judge_outcome(outcome(returned(0), returned(1))) is None


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (AssertionError("off by 1"), Verdict.FAIL),
        (AssertionError(), Verdict.FAIL),
        (Unsupported("refused"), Verdict.UNSUPPORTED),
        (NotRun("a GPU", "buy one"), Verdict.NOT_RUN),
        (KeyError("x"), Verdict.ERROR),
    ],
)
def test_what_a_check_raises_is_a_verdict(error: Exception, verdict: Verdict) -> None:
    def check() -> None:
        raise error

    judgement = judge_check(check, Path(__file__))
    assert judgement.verdict is verdict
    assert judgement.reason


KNOWN = KnownIssue(
    id="k",
    title="t",
    fault="deepspeed",
    area="train",
    workaround="w.",
    cells=("zero/train[*]",),
    lanes=("linux_*",),
    versions={"deepspeed": ">=0.19,<0.20"},
    expect=("FAIL",),
    match="off by \\d",
    reference="not reported",
    explanation="e",
    review=datetime.date(2030, 1, 1),
)


def explained(
    judgement: Judgement,
    entry: KnownIssue,
    *,
    lane: str = "linux_gloo",
    transport: str = "gloo",
    version: str = "0.19.8",
    host: Host = factory.LINUX,
) -> tuple[Judgement, KnownIssue | None]:
    return explain(
        judgement,
        CELL,
        [entry],
        lane=lane,
        transport=transport,
        integration="reference",
        versions={"deepspeed": version},
        host=host,
    )


@pytest.mark.parametrize(
    ("capabilities", "failed", "passed"),
    [
        ({"fp16": True, "cores": 4}, Verdict.XFAIL, Verdict.XPASS),
        ({"fp16": True, "cores": 1.5}, Verdict.FAIL, Verdict.PASS),
        ({"fp16": False, "cores": 4}, Verdict.FAIL, Verdict.PASS),
        ({"cores": 4}, Verdict.FAIL, Verdict.PASS),  # the probe of fp16 failed
        ({}, Verdict.FAIL, Verdict.PASS),
    ],
)
def test_an_entry_over_capabilities_speaks_of_such_hosts_only(
    capabilities: dict[str, bool | float], failed: Verdict, passed: Verdict
) -> None:
    entry = KnownIssue.model_validate(KNOWN.model_dump() | {"capabilities": {"fp16": True, "cores": ">=2"}})
    host = factory.LINUX.model_copy(update={"capabilities": capabilities})
    assert explained(Judgement(Verdict.FAIL, "off by 1"), entry, host=host)[0].verdict is failed
    assert explained(Judgement(Verdict.PASS), entry, host=host)[0].verdict is passed


@pytest.mark.parametrize(("installed", "verdict"), [({}, Verdict.XFAIL), ({"other": "1.0"}, Verdict.FAIL)])
def test_an_entry_may_speak_of_the_absence_of_a_package(installed: dict[str, str], verdict: Verdict) -> None:
    entry = KNOWN.model_copy(update={"versions": {"deepspeed": ">=0.19", "other": "absent"}})
    versions = {"deepspeed": "0.19.8", **installed}
    found, _ = explain(
        Judgement(Verdict.FAIL, "off by 1"), CELL, [entry], lane="linux_gloo", transport="gloo",
        integration="reference", versions=versions, host=factory.LINUX,
    )  # fmt: skip
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("judgement", "lane", "version", "verdict"),
    [
        (Judgement(Verdict.FAIL, "off by 1"), "linux_gloo", "0.19.8", Verdict.XFAIL),
        (Judgement(Verdict.FAIL, "another thing"), "linux_gloo", "0.19.8", Verdict.FAIL),
        (Judgement(Verdict.CRASH, "off by 1"), "linux_gloo", "0.19.8", Verdict.CRASH),
        (Judgement(Verdict.PASS), "linux_gloo", "0.19.8", Verdict.XPASS),
        (Judgement(Verdict.UNSUPPORTED, "no"), "linux_gloo", "0.19.8", Verdict.XPASS),
        (Judgement(Verdict.UNSUPPORTED, "no", by_integration=True), "linux_gloo", "0.19.8", Verdict.UNSUPPORTED),
        (Judgement(Verdict.NOT_RUN, "no"), "linux_gloo", "0.19.8", Verdict.NOT_RUN),
        (Judgement(Verdict.ERROR, "off by 1"), "linux_gloo", "0.19.8", Verdict.ERROR),
        (Judgement(Verdict.FAIL, "off by 1"), "windows_mpi", "0.19.8", Verdict.FAIL),
        (Judgement(Verdict.PASS), "linux_gloo", "0.20.0", Verdict.PASS),
    ],
)
def test_a_known_issue_explains_only_what_it_describes(
    judgement: Judgement, lane: str, version: str, verdict: Verdict
) -> None:
    seen, issue = explained(judgement, KNOWN, lane=lane, version=version)
    assert seen.verdict is verdict
    assert (issue is KNOWN) == (verdict in (Verdict.XFAIL, Verdict.XPASS))


def test_a_known_issue_of_a_transport_explains_every_lane_on_it() -> None:
    entry = KNOWN.model_copy(update={"lanes": ("*",), "transports": ("gloo",)})
    failed = Judgement(Verdict.FAIL, "off by 1")
    assert explained(failed, entry, lane="linux_mpi", transport="gloo")[0].verdict is Verdict.XFAIL
    assert explained(failed, entry, lane="linux_mpi", transport="mpi")[0].verdict is Verdict.FAIL


def test_a_race_that_a_cell_won_is_no_news() -> None:
    race = KNOWN.model_copy(update={"intermittent": True})
    assert explained(Judgement(Verdict.PASS), race) == (Judgement(Verdict.PASS), None)
    assert explained(Judgement(Verdict.FAIL, "off by 1"), race)[0].verdict is Verdict.XFAIL
    assert explained(Judgement(Verdict.FAIL, "another thing"), race)[0].verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([Verdict.PASS, Verdict.XFAIL, Verdict.UNSUPPORTED, Verdict.NOT_RUN], ExitCode.AS_EXPECTED),
        ([Verdict.PASS, Verdict.FAIL, Verdict.ERROR], ExitCode.UNEXPECTED),
        ([Verdict.XPASS], ExitCode.UNEXPECTED),
        ([Verdict.TIMEOUT, Verdict.PASS], ExitCode.UNEXPECTED),
        ([Verdict.CRASH], ExitCode.UNEXPECTED),
        ([Verdict.PASS, Verdict.ERROR], ExitCode.HARNESS),
        ([Verdict.NOT_RUN, Verdict.NOT_RUN], ExitCode.HARNESS),
        ([], ExitCode.HARNESS),
    ],
)
def test_no_run_is_good_that_ran_nothing(verdicts: list[Verdict], code: ExitCode) -> None:
    assert exit_code(verdicts) is code
