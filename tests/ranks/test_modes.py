"""Every way of starting ranks gives the same observations."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.ranks import Job, Outcome, RankPool, RankStatus, open_pool
from tests.ranks.rank_support import FAST, statuses, without_luck

JobMaker = Callable[..., Job]


def observations(outcome: Outcome) -> list[dict[str, Any]]:
    assert outcome.harness_error is None
    assert statuses(outcome) == [RankStatus.RETURNED] * len(outcome.reports), outcome
    return [report.observation or {} for report in outcome.reports]


def test_forked_is_as_cold(pools: Callable[[str], RankPool], make_job: JobMaker, cold_training: Outcome) -> None:
    fast = pools(FAST).run(make_job("train", parameters={"stage": 2}, deadline=60.0))
    assert fast.mode in (FAST, "reused")
    assert cold_training.mode == "cold"
    first, second = observations(fast)
    assert [without_luck(each) for each in (first, second)] == [
        without_luck(each) for each in observations(cold_training)
    ]
    assert first["weights"] == second["weights"]
    assert not set(first["random"]) & set(second["random"])


def test_stage_3_comes_to_the_same_weights(
    pools: Callable[[str], RankPool], make_job: JobMaker, cold_training: Outcome
) -> None:
    fast = observations(pools(FAST).run(make_job("train", parameters={"stage": 3}, deadline=60.0)))
    assert [each["weights"] for each in fast] == [each["weights"] for each in observations(cold_training)]


def test_a_rank_may_initialise_again(pools: Callable[[str], RankPool], make_job: JobMaker) -> None:
    for observation in observations(pools(FAST).run(make_job("initialise_again", parameters={"times": 5}))):
        assert observation["sums"] == [2.0, 4.0, 6.0, 8.0, 10.0]


def test_jobs_that_need_fresh_interpreters_get_them(make_job: JobMaker) -> None:
    pool = open_pool(preload=("json",), environment={"DS_ACCELERATOR": "cpu"})
    try:
        assert pool.run(make_job("variables", cold=True, world=1)).mode == "cold"
        outcome = pool.run(make_job("variables", world=1, environment={"DS_ACCELERATOR": None, "PYTHONUTF8": "1"}))
    finally:
        pool.close()
    assert outcome.mode == "cold"
    assert 0 <= outcome.waited < outcome.seconds
    (observation,) = observations(outcome)
    assert observation["environment"]["PYTHONUTF8"] == "1"
    assert "DS_ACCELERATOR" not in observation["environment"]


@pytest.mark.skipif(sys.platform != "linux", reason="no fork server there")
def test_the_wait_for_the_fork_server_is_told_apart(make_job: JobMaker, tmp_path: Path) -> None:
    (tmp_path / "slow_to_import.py").write_text("import time; time.sleep(2)", encoding="utf-8")
    pool = open_pool(mode="forked", preload=("slow_to_import",), environment={"PYTHONPATH": str(tmp_path)})
    try:
        first, second = (pool.run(make_job("variables", world=1)) for _ in range(2))
    finally:
        pool.close()
    assert [first.harness_error, second.harness_error] == [None, None]
    assert first.waited > 1 and first.seconds >= first.waited
    assert second.waited < 1


@pytest.mark.parametrize("mode", [FAST, "light cold"])
def test_variables_of_a_rank(
    pools: Callable[[str], RankPool], make_job: JobMaker, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job("variables", environment={"LOCAL_RANK": None, "MASTER_ADDR": "elsewhere", "MINE": "größer"})
    ranks = observations(pools(mode).run(job))
    for rank, observation in enumerate(ranks):
        found = observation["environment"]
        assert (found["RANK"], found["WORLD_SIZE"], found["LOCAL_WORLD_SIZE"]) == (str(rank), "2", "2")
        assert "LOCAL_RANK" not in found
        assert (found["MASTER_ADDR"], found["MINE"]) == ("elsewhere", "größer")
        assert found["OMP_NUM_THREADS"] == os.environ.get("OMP_NUM_THREADS", "1")
        assert found["DS_ACCELERATOR"] == "cpu"
        assert not [name for name in found if name.startswith("CONFORMANCE_RANKS")]
        assert Path(observation["folder"]) == job.setting.folder
    assert ranks[0]["environment"]["MASTER_PORT"] == ranks[1]["environment"]["MASTER_PORT"]


def test_nothing_of_a_cluster_job_reaches_ranks(make_job: JobMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "TORCHELASTIC_RUN_ID", "CROSS_RANK"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("KEPT_ALL_THE_SAME", "7")
    pool = open_pool(mode="auto", preload=("json",))
    try:
        for rank, observation in enumerate(observations(pool.run(make_job("variables")))):
            found = observation["environment"]
            assert found["RANK"] == str(rank)
            assert {name for name, value in found.items() if value == "7"} == {"KEPT_ALL_THE_SAME"}
    finally:
        pool.close()


@pytest.mark.skipif(sys.platform != "linux", reason="a fork server is a thing of Linux")
def test_a_fork_server_with_threads_is_refused(make_job: JobMaker, tmp_path: Path) -> None:
    (tmp_path / "starts_a_thread.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n", "utf-8"
    )
    pool = open_pool(mode="forked", preload=("starts_a_thread",), environment={"PYTHONPATH": str(tmp_path)})
    try:
        error = pool.run(make_job("echo")).harness_error
        assert error is not None
        assert "started threads: 2 run, expected 1" in error
    finally:
        pool.close()


@pytest.mark.skipif(sys.platform != "linux", reason="a fork server is a thing of Linux")
def test_a_fork_server_that_cannot_import_says_what(make_job: JobMaker) -> None:
    pool = open_pool(mode="forked", preload=("no_such_module",))
    try:
        error = pool.run(make_job("echo")).harness_error
        assert error is not None
        assert "No module named 'no_such_module'" in error
    finally:
        pool.close()


def test_unknown_mode() -> None:
    with pytest.raises(ValueError, match="unknown mode of ranks 'warm'; expected one of auto, forked, cold"):
        open_pool(mode="warm")
