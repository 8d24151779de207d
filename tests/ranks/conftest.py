"""Pools and jobs for tests of ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.ranks import Job, RankPool, open_pool
from conformance.setting import Setting

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)  # where ranks find rank_scenarios, too

JobMaker = Callable[..., Job]


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
        return Job(f"planted/{scenario}", f"rank_scenarios:{scenario}", setting, deadline, **options)

    return make


@pytest.fixture(scope="session")
def pools() -> Iterator[Callable[[str], RankPool]]:
    """One pool a mode; `light` is cold without imports ahead."""
    opened: dict[str, RankPool] = {}

    def pool(mode: str) -> RankPool:
        if mode not in opened:
            environment = {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
            options: dict[str, Any] = {"mode": mode, "environment": environment}
            if mode == "light":
                options |= {"mode": "cold", "preload": ()}
            opened[mode] = open_pool(**options)
        return opened[mode]

    yield pool
    for each in opened.values():
        each.close()
