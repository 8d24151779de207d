"""Pools and jobs for tests of ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.model.setting import Setting
from conformance.ranks import Job, Outcome, RankPool, RankReport, RankStatus, open_pool
from conformance.ranks.pool import watch
from tests.ranks.rank_support import descendants, statuses, wait_until

JobMaker = Callable[..., Job]
LATE = 5.0
"""Seconds past its deadline at which a job must be over."""


@pytest.fixture
def make_job(tmp_path: Path) -> JobMaker:
    """Jobs whose cell folder has a space and letters beyond ASCII in its name."""

    def make(scenario: str, world: int = 2, deadline: float = 20.0, **options: Any) -> Job:
        folder = tmp_path / "cell größe"
        folder.mkdir(exist_ok=True)
        setting = Setting(
            parameters=options.pop("parameters", {}),
            rank=None,
            world=world,
            launcher="env",
            transport="gloo",
            device="cpu",
            integration="bare",
            folder=folder,
        )
        return Job(f"planted/{scenario}", f"tests.ranks.rank_scenarios:{scenario}", setting, deadline, **options)

    return make


@pytest.fixture(scope="session")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], RankPool]]:
    """One pool a mode, started when first asked for; a mode that is called light imports nothing ahead."""
    opened: dict[str, RankPool] = {}

    def pool(mode: str) -> RankPool:
        if mode not in opened:  # a first job shows it at work, and keeps its start out of what tests time
            environment = {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
            light = {"preload": ()} if mode.startswith("light ") else {}
            opened[mode] = open_pool(mode=mode.removeprefix("light "), environment=environment, **light)
            folder = tmp_path_factory.mktemp("first")
            setting = Setting({}, None, 1, "env", "gloo", "cpu", "bare", folder)
            first = opened[mode].run(Job("first", "tests.ranks.rank_scenarios:echo", setting, 20.0))
            assert statuses(first) == [RankStatus.RETURNED], first
        return opened[mode]

    yield pool
    for each in opened.values():
        each.close()


@pytest.fixture(scope="session")
def cold_training(pools: Callable[[str], RankPool], tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What training with ZeRO-2 in fresh interpreters comes to."""
    folder = tmp_path_factory.mktemp("cold")
    setting = Setting({"stage": 2}, None, 2, "env", "gloo", "cpu", "bare", folder)
    return pools("cold").run(Job("planted/train", "tests.ranks.rank_scenarios:train", setting, 60.0))


@pytest.fixture
def run(
    mode: str, pools: Callable[[str], RankPool], make_job: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Outcome]]:
    """Runs a planted scenario; afterwards shows that the pool still works and that nothing is left."""
    pool = pools(mode)
    before = descendants()
    watched: list[float] = []

    def watch_and_time(*arguments: Any) -> list[RankReport]:  # a deadline counts from when the ranks have the job
        begin = time.perf_counter()
        reports = watch.watch(*arguments)
        watched.append(time.perf_counter() - begin)
        return reports

    monkeypatch.setattr("conformance.ranks.pool.pool.watch", watch_and_time)

    def run_planted(scenario: str, **options: object) -> Outcome:
        job = make_job(scenario, **options)
        outcome = pool.run(job)
        assert outcome.harness_error is None
        assert watched.pop() < job.deadline + LATE
        assert [report.rank for report in outcome.reports] == list(range(job.setting.world))
        return outcome

    yield run_planted
    if "prewarmed" not in mode:  # whose waiting ranks are rightly there
        assert wait_until(lambda: descendants() <= before, 2.0), descendants() - before
    after = pool.run(make_job("echo"))
    assert statuses(after) == [RankStatus.RETURNED] * 2
    assert [report.observation["rank"] for report in after.reports if report.observation] == [0, 1]
