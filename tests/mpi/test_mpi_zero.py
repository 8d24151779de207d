"""ZeRO over mpi4py trains to what it trains to over gloo."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.mpi.mpi_jobs import HERE, Starter

pytest.importorskip("deepspeed")

STAGES = [(stage, bf16) for stage in range(4) for _ in ((0, 1) if stage in (2, 3) else (0,)) for bf16 in (False, True)]
"""The stage and dtype of each setting in zero_in_ranks.py."""


def trained(start: Starter, world: int, folder: Path) -> dict[str, list[dict[str, Any]]]:
    result = folder / "result.json"
    ended = start(world, [str(HERE / "zero_in_ranks.py"), str(result)], timeout=300)
    assert ended.code == 0 and result.is_file(), ended.output
    found: dict[str, list[dict[str, Any]]] = json.loads(result.read_text(encoding="utf-8"))
    for each in found.values():
        assert [setting["stage"] for setting in each] == [stage for stage, _ in STAGES]
    return found


def test_two_ranks_get_the_weights_of_gloo(start: Starter, tmp_path: Path) -> None:
    """Bit for bit, in every stage and in bfloat16: a sum of two does not depend on its order."""
    found = trained(start, 2, tmp_path)
    assert [each["hash"] for each in found["mpi4py"]] == [each["hash"] for each in found["gloo"]]


@pytest.mark.slow
def test_four_ranks_get_almost_the_weights_of_gloo(start: Starter, tmp_path: Path) -> None:
    """gloo adds in another order, and in another one for each bucket; mpi4py always in that of the ranks.

    Four steps of Adam with lr 0.01 turn a difference in the last bit of a gradient into at most a few lr * 1e-4 here; a
    lost or doubled contribution changes weights by lr and more.
    """
    found = trained(start, 4, tmp_path)
    for ours, theirs, (_, bf16) in zip(found["mpi4py"], found["gloo"], STAGES, strict=True):
        for mine, other in zip(ours["some"], theirs["some"], strict=True):
            assert math.isclose(mine, other, abs_tol=2e-2 if bf16 else 1e-5)
    for dtype in (False, True):
        hashes = {
            each["hash"]
            for each, (stage, bf16) in zip(found["mpi4py"], STAGES, strict=True)
            if bf16 == dtype and stage in (1, 2)
        }
        assert len(hashes) == 1, "stages 1 and 2, with and without overlap, must reduce alike"
