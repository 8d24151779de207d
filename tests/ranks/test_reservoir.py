"""Ranks that are started ahead of need and serve several jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from conformance.ranks import Job, Outcome, RankPool, RankStatus, open_pool
from tests.ranks.rank_support import statuses, wait_until, without_luck

JobMaker = Callable[..., Job]


@pytest.fixture
def pool() -> Iterator[RankPool]:
    """A reservoir whose ranks serve three jobs."""
    opened = open_pool(mode="prewarmed", preload=("json",), reuse=3)
    yield opened
    opened.close()


def seen(outcome: Outcome) -> list[dict[str, Any]]:
    assert statuses(outcome) == [RankStatus.RETURNED] * len(outcome.reports), outcome
    return [report.observation or {} for report in outcome.reports]


def pids(outcome: Outcome) -> set[int]:
    return {int(each["pid"]) for each in seen(outcome)}


def test_ranks_serve_several_jobs_and_no_more(pool: RankPool, make_job: JobMaker) -> None:
    outcomes = [pool.run(make_job("echo")) for _ in range(7)]
    assert [outcome.mode for outcome in outcomes] == ["prewarmed", "reused", "reused"] * 2 + ["prewarmed"]
    groups = [pids(outcome) for outcome in outcomes]
    assert groups[0] == groups[1] == groups[2]
    assert groups[3] == groups[4] == groups[5]
    assert not groups[0] & groups[3]
    assert not groups[3] & groups[6]


def test_what_a_job_sets_is_gone_in_the_next(pool: RankPool, make_job: JobMaker) -> None:
    changed = pool.run(make_job("variables", environment={"MINE": "1", "MASTER_ADDR": None}))
    assert all(each["environment"].get("MINE") == "1" for each in seen(changed))
    after = pool.run(make_job("variables"))
    assert after.mode == "reused"
    for each in seen(after):
        assert "MINE" not in each["environment"]
        assert each["environment"]["MASTER_ADDR"] == "127.0.0.1"


def test_fresh_ranks_have_run_nothing(pool: RankPool, make_job: JobMaker) -> None:
    used = pids(pool.run(make_job("echo")))
    fresh = pool.run(make_job("echo"), fresh=True)
    assert fresh.mode == "prewarmed"
    assert not pids(fresh) & used
    used |= pids(fresh)
    again = pool.run(make_job("echo"))
    assert again.mode == "reused"
    assert pids(again) < used
    cold = pool.run(make_job("echo", cold=True))
    assert cold.mode == "cold"
    assert not pids(cold) & used


@pytest.mark.parametrize("world", [1, 3])
def test_any_world(pool: RankPool, make_job: JobMaker, world: int) -> None:
    for _ in range(2):
        assert [each["rank"] for each in seen(pool.run(make_job("echo", world=world)))] == list(range(world))


def test_ranks_of_a_job_that_failed_are_not_used_again(pool: RankPool, make_job: JobMaker) -> None:
    used = pids(pool.run(make_job("echo")))
    assert statuses(pool.run(make_job("exit_politely"))) == [RankStatus.RAISED] * 2
    after = pool.run(make_job("echo"))
    assert after.mode == "prewarmed"
    assert not pids(after) & used


def test_ranks_that_cannot_be_cleaned_are_not_used_again(pool: RankPool, make_job: JobMaker) -> None:
    used = pids(pool.run(make_job("spoil")))
    after = pool.run(make_job("variables"))
    assert after.mode == "prewarmed"
    assert not {each["pid"] for each in seen(after)} & used


def test_ranks_are_started_ahead(pool: RankPool, make_job: JobMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    started = [group.ready for group in pool._groups]  # type: ignore[attr-defined]
    assert len(started) == 2
    pool.run(make_job("echo"))
    pool.expect([4])
    waiting = pool._groups  # type: ignore[attr-defined]
    assert sum(not group.jobs for group in waiting) == 2
    assert wait_until(lambda: pool.hub.poll(0.05) or all(group.ready for group in waiting), 20.0)  # type: ignore[attr-defined]
    assert pool.run(make_job("echo", world=4)).mode == "reused"


def test_there_are_spare_ranks_while_jobs_end_theirs(
    pool: RankPool, make_job: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unused() -> int:
        return sum(not group.jobs for group in pool._groups)  # type: ignore[attr-defined]

    monkeypatch.setattr("os.cpu_count", lambda: 8)
    pool.run(make_job("echo"))
    assert unused() == 0
    pool.run(make_job("exit_politely"))
    pool.run(make_job("echo"))
    assert unused() == 2
    pool.run(make_job("echo"))
    assert unused() == 2


def test_a_rank_that_dies_while_it_waits_is_replaced(pool: RankPool, make_job: JobMaker) -> None:
    for pid in pids(pool.run(make_job("echo"))):
        process = psutil.Process(pid)
        process.kill()
        process.wait(10)
    assert seen(pool.run(make_job("echo")))


def test_ranks_that_do_not_get_ready_are_an_error_of_the_harness(make_job: JobMaker, tmp_path: Any) -> None:
    (tmp_path / "ends_it.py").write_text("import os\nprint('these words', flush=True)\nos._exit(9)\n", "utf-8")
    opened = open_pool(mode="prewarmed", preload=("ends_it",), environment={"PYTHONPATH": str(tmp_path)})
    try:
        error = opened.run(make_job("echo")).harness_error
        assert error is not None
        assert "these words" in error
    finally:
        opened.close()


def test_reused_is_as_cold(pools: Callable[[str], RankPool], make_job: JobMaker, cold_training: Outcome) -> None:
    """Stage 3 and a job that leaves everything lying about come before, and show in nothing."""
    pool = pools("prewarmed")
    littered = pool.run(make_job("litter", deadline=60.0))
    outcomes = [pool.run(make_job("train", parameters={"stage": stage}, deadline=60.0)) for stage in (3, 2, 2)]
    assert [outcome.mode for outcome in outcomes] == ["reused"] * 3
    assert pids(littered) == {each["pid"] for each in seen(outcomes[2])}
    expected = [without_luck(each) for each in seen(cold_training)]
    assert [each["weights"] for each in seen(outcomes[0])] == [each["weights"] for each in expected]
    for outcome in outcomes[1:]:
        assert [without_luck(each) for each in seen(outcome)] == expected
    logs = [outcome.reports[0].log for outcome in (outcomes[1], outcomes[2], cold_training)]
    assert len({log.count("FutureWarning") for log in logs}) == 1, logs  # warned once a job, not once a process
