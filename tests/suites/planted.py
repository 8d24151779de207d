"""Observations as good ranks would make them, to plant faults in."""

from __future__ import annotations

from typing import Any

import numpy

from conformance.suites.common.expecting import TORCH_ADAMW


def proof(rank: int = 0, /, *, of: int = 2, **changes: Any) -> dict[str, Any]:
    """What `observing.prove` returns for one right step of rank `rank` of `of` ranks on a CPU."""
    weights = numpy.linspace(-1, 1, 58, dtype=numpy.float32)
    return {
        "asked": {"world": of, "device": "cpu", "transport": "gloo"},
        "rank": rank,
        "world": of,
        "engine_rank": rank,
        "engine_world": of,
        "local_rank": rank,
        "transport": "gloo",
        "device": "cpu",
        "steps": 1,
        "stage": 0,
        "micro_batch": 2,
        "accumulation": 1,
        "train_batch": 2 * of,
        "dtype": "float32",
        "optimizer": TORCH_ADAMW,
        "basic_optimizer": TORCH_ADAMW,
        "scheduler": None,
        "rates": [[0.01], [0.01]],
        "start": weights - 0.01,
        "weights": weights,
        "plain": weights + 3e-8,
        "digest": "0123456789abcdef",
        **changes,
    }


def proofs(**changes: Any) -> list[dict[str, Any]]:
    """Those of two ranks, both with the same changes."""
    return [proof(rank, **changes) for rank in (0, 1)]


def refused(kind: str, message: str, module: str = "builtins") -> dict[str, Any]:
    """What `observing.attempt` returns for an error."""
    return {"raised": {"type": kind, "module": module, "message": message}}


def returned(value: Any) -> dict[str, Any]:
    """What `observing.attempt` returns for a value."""
    return {"returned": value}
