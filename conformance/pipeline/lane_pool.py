"""The rank pool that suits a lane on this host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance import integrations
from conformance.pipeline.run_cell import Circumstances
from conformance.ranks import RankPool, open_pool

RANK_MODES = ("auto", "forked", "cold", "prewarmed")


def open_lane_pool(mode: str, circumstances: Circumstances, driven: Sequence[str], folder: Path) -> RankPool:
    """Open the pool of a process of a run.

    Args:
        mode: the --ranks option.
        driven: the integrations that ranks import ahead.
        folder: for the pool's own logs.
    """
    lane = circumstances.lane
    environment: dict[str, str | None] = dict(lane.environment)
    if circumstances.device == "cpu":
        environment |= {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    return open_pool(
        mode=lane.ranks if mode == "auto" else mode,
        folder=folder,
        environment=environment,
        preload=["torch", "deepspeed", *(integrations.module(name) for name in driven)],
    )
