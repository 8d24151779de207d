"""The rank pool that suits a lane on this host."""

from __future__ import annotations

from collections.abc import Sequence

from conformance import integrations
from conformance.pipeline.run_cell import Circumstances
from conformance.ranks import RankPool, open_pool

RANK_MODES = ("auto", "forked", "cold", "prewarmed")


def open_lane_pool(mode: str, circumstances: Circumstances, driven: Sequence[str]) -> RankPool:
    """Open the pool for a run; `mode` is the --ranks option, and `driven` the integrations that ranks import ahead."""
    lane = circumstances.lane
    environment = dict(lane.environment)
    if circumstances.device == "cpu":
        environment |= {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    preload = ["torch", "deepspeed", *(module for name in driven for module in integrations.modules(name))]
    return open_pool(
        mode=lane.ranks if mode == "auto" else mode,
        launcher=lane.launcher,
        environment=environment,
        preload=preload,
    )
