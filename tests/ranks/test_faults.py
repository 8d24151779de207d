"""Whatever a rank does, its job ends in time with the right report, the next job runs, and no process is left."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import pytest

from conformance.ranks import Outcome, RankStatus
from tests.ranks.rank_support import LIGHT_MODES, statuses

pytestmark = pytest.mark.parametrize("mode", LIGHT_MODES)
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="planted with a signal that only Linux has")


def test_hang(run: Callable[..., Outcome]) -> None:
    outcome = run("hang", deadline=1.0)
    assert statuses(outcome) == [RankStatus.TIMED_OUT] * 2
    for report in outcome.reports:
        assert "in hang" in report.stacks
        assert report.seconds == 0.0
        assert report.observation is None


@linux_only
def test_hang_in_c_code_that_holds_the_gil(run: Callable[..., Outcome]) -> None:
    outcome = run("hang_holding_the_gil", deadline=1.0, world=1)
    assert statuses(outcome) == [RankStatus.TIMED_OUT]
    assert "in hang_holding_the_gil" in outcome.reports[0].stacks


def test_suspended(run: Callable[..., Outcome]) -> None:
    outcome = run("stop_itself", deadline=1.5)
    assert statuses(outcome) == [RankStatus.TIMED_OUT] * 2
    assert outcome.reports[0].stacks == ""


@linux_only
def test_killed(run: Callable[..., Outcome]) -> None:
    outcome = run("kill_itself")
    assert statuses(outcome) == [RankStatus.DIED] * 2
    assert [report.exit_code for report in outcome.reports] == [-signal.SIGKILL] * 2
    assert outcome.seconds < 3.0


@linux_only
def test_one_killed(run: Callable[..., Outcome]) -> None:
    outcome = run("kill_rank_1")
    assert statuses(outcome) == [RankStatus.STOPPED, RankStatus.DIED]
    assert outcome.reports[1].exit_code == -signal.SIGKILL
    assert outcome.seconds < 8.0


def test_segmentation_fault(run: Callable[..., Outcome]) -> None:
    outcome = run("segfault")
    assert statuses(outcome) == [RankStatus.DIED] * 2
    if sys.platform == "linux":
        assert outcome.reports[0].exit_code == -signal.SIGSEGV
    assert "in segfault" in outcome.reports[0].log


@pytest.mark.parametrize("code", [0, 7])
def test_exit_without_report(run: Callable[..., Outcome], code: int) -> None:
    outcome = run("exit_quietly", parameters={"code": code})
    assert statuses(outcome) == [RankStatus.DIED] * 2
    assert [report.exit_code for report in outcome.reports] == [code] * 2


def test_sys_exit(run: Callable[..., Outcome]) -> None:
    outcome = run("exit_politely")
    assert statuses(outcome) == [RankStatus.RAISED] * 2
    error = outcome.reports[0].error
    assert error is not None
    assert (error.type, error.message) == ("SystemExit", "3")


def test_exception_without_text(run: Callable[..., Outcome]) -> None:
    outcome = run("raise_unprintable")
    assert statuses(outcome) == [RankStatus.RAISED] * 2
    error = outcome.reports[0].error
    assert error is not None
    assert error.type.endswith("Unprintable")
    assert "ValueError" in error.message


def test_rank_that_never_reports(run: Callable[..., Outcome]) -> None:
    outcome = run("forget_rank_1", deadline=2.0)
    assert statuses(outcome) == [RankStatus.RETURNED, RankStatus.TIMED_OUT]
    assert outcome.reports[0].observation == {"rank": 0}
    assert outcome.reports[0].exit_code == 0


@linux_only
def test_rank_that_hangs_up(run: Callable[..., Outcome]) -> None:
    outcome = run("hang_up", world=1)
    assert statuses(outcome) == [RankStatus.DIED]
    assert outcome.reports[0].exit_code is None
    assert "closed its connection" in outcome.reports[0].log
    assert outcome.seconds < 5.0


@pytest.mark.parametrize(
    ("scenario", "place"),
    [
        ("return_a_lock", "the result['weights']['lock'] is a _thread.lock"),
        ("return_nothing", "returned NoneType"),
        ("return_itself", "recursion"),
    ],
)
def test_result_that_is_not_plain(run: Callable[..., Outcome], scenario: str, place: str) -> None:
    outcome = run(scenario, world=1)
    assert statuses(outcome) == [RankStatus.UNREPORTABLE]
    error = outcome.reports[0].error
    assert error is not None
    assert place in error.message
    assert outcome.reports[0].observation is None


def test_unknown_scenario(run: Callable[..., Outcome]) -> None:
    outcome = run("no_such_scenario", world=1)
    assert statuses(outcome) == [RankStatus.RAISED]
    error = outcome.reports[0].error
    assert error is not None
    assert error.type == "AttributeError"


def test_huge_result(run: Callable[..., Outcome]) -> None:
    outcome = run("return_64_mib")
    for report in outcome.reports:
        assert report.observation is not None
        assert report.observation["array"].nbytes == 64 << 20
        assert report.observation["array"][-1] == (8 << 20) - 1 + report.rank
        assert report.observation["end"] == "end"


def test_huge_log(run: Callable[..., Outcome]) -> None:
    log = run("write_a_lot", world=1).reports[0].log
    assert log.startswith("the very first line")
    assert log.rstrip().endswith("the very last line")
    assert "bytes left out" in log
    assert len(log) < 17 * 1024


def test_log_that_is_not_text(run: Callable[..., Outcome]) -> None:
    log = run("write_bytes", world=1).reports[0].log
    assert log == "plain, größer\nbroken \ufffd\ufffd\ufffd bytes\nto stderr\n"


def test_standard_files_closed(run: Callable[..., Outcome]) -> None:
    assert statuses(run("close_standard_files")) == [RankStatus.RETURNED] * 2


def test_traces_are_gone_in_the_next_job(run: Callable[..., Outcome]) -> None:
    assert statuses(run("spoil")) == [RankStatus.RETURNED] * 2
    for report in run("variables").reports:
        assert report.observation is not None
        assert "LEFT_BEHIND" not in report.observation["environment"]
        assert report.observation["environment"]["MASTER_PORT"]
        assert report.observation["folder"].endswith("größe")
        assert report.observation["threads"] == 1
