"""Processes that ranks leave behind, and those that are left when the harness itself is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from conformance.ranks import Job, RankPool, RankStatus, open_pool
from tests.ranks.rank_support import LIGHT_MODES, running, wait_until

JobMaker = Callable[..., Job]
HERE = Path(__file__).parent


def pids_of(job: Job) -> list[int]:
    found = []
    for rank in range(job.setting.world):
        found += [int(pid) for pid in (job.setting.folder / f"left{rank}.txt").read_text(encoding="utf-8").split()]
    return found


@pytest.mark.parametrize("mode", LIGHT_MODES)
@pytest.mark.parametrize(
    ("then", "deadline", "status"),
    [("return", 30.0, RankStatus.RETURNED), ("hang", 5.0, RankStatus.TIMED_OUT), ("exit", 30.0, RankStatus.DIED)],
)
def test_children_end_with_the_job(
    pools: Callable[[str], RankPool], make_job: JobMaker, mode: str, then: str, deadline: float, status: RankStatus
) -> None:
    job = make_job("leave_children", parameters={"then": then}, deadline=deadline)
    outcome = pools(mode).run(job)
    assert outcome.harness_error is None
    assert [report.status for report in outcome.reports] == [status] * 2
    pids = pids_of(job)
    assert len(pids) == 8
    assert not [pid for pid in pids if running(pid)]


@pytest.mark.parametrize("mode", LIGHT_MODES)
@pytest.mark.parametrize("way", ["kill", "exit"])
def test_nothing_outlives_the_harness(tmp_path: Path, mode: str, way: str) -> None:
    program = subprocess.Popen(
        [sys.executable, str(HERE / "harness_to_kill.py"), mode.removeprefix("light "), str(tmp_path), way],
        cwd=HERE.parents[1],
    )
    me = psutil.Process(program.pid)
    try:
        files = [tmp_path / "left0.txt", tmp_path / "left1.txt"]
        assert wait_until(lambda: all(file.exists() and file.read_text("utf-8") for file in files), 60.0)
        family = [process.pid for process in me.children(recursive=True)]
        planted = [int(pid) for file in files for pid in file.read_text("utf-8").split()]
        assert len(family) > 4
        if way == "kill":
            program.kill()
        program.wait(20)
        assert wait_until(lambda: not any(running(pid) for pid in [*family, *planted]), 5.0)
    finally:
        program.kill()
        program.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="a fork server is a thing of Linux")
def test_a_lost_fork_server_costs_one_job(make_job: JobMaker) -> None:
    pool = open_pool(mode="forked", preload=("json",))
    try:
        first = pool.run(make_job("echo"))
        assert first.harness_error is None
        observation = first.reports[0].observation
        assert observation is not None
        psutil.Process(observation["parent"]).kill()
        lost = pool.run(make_job("echo"))
        # The harness may notice before it starts the job, and then nothing is lost.
        assert lost.harness_error is None or "lost" in lost.harness_error or "ended" in lost.harness_error
        after = pool.run(make_job("echo"))
        assert after.harness_error is None
        assert [report.status for report in after.reports] == [RankStatus.RETURNED] * 2
    finally:
        pool.close()


def test_closing_ends_everything_and_closes_for_good(make_job: JobMaker) -> None:
    before = set(psutil.pids())
    pool = open_pool(mode="auto", preload=("json",))
    assert pool.run(make_job("echo")).harness_error is None
    pool.close()
    mine = {child.pid for child in psutil.Process().children(recursive=True)}
    assert not mine - before
    late = pool.run(make_job("echo"))
    assert late.harness_error == "the pool of ranks is closed"
    pool.close()


def test_two_pools_at_once(make_job: JobMaker) -> None:
    one, two = (open_pool(mode="auto", preload=("json",)) for _ in range(2))
    try:
        for _ in range(3):
            for pool in (one, two):
                outcome = pool.run(make_job("echo"))
                assert [report.status for report in outcome.reports] == [RankStatus.RETURNED] * 2
    finally:
        one.close()
        two.close()


def test_a_python_that_is_not_there(make_job: JobMaker, tmp_path: Path) -> None:
    started = time.monotonic()
    pool = open_pool(mode="cold", python=[str(tmp_path / "no python")])
    try:
        outcome = pool.run(make_job("echo"))
        assert outcome.harness_error is not None
        assert "no python" in outcome.harness_error
        assert outcome.reports == ()
        assert time.monotonic() - started < 5.0
    finally:
        pool.close()
