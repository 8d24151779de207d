"""Faults of ranks that work with torch."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from conformance.ranks import Outcome, RankStatus
from tests.ranks.rank_support import FAST, statuses

pytestmark = pytest.mark.parametrize("mode", [FAST])


def test_exception_while_the_peer_waits(mode: str, run: Callable[..., Outcome]) -> None:
    outcome = run("fail_rank_1_in_a_collective", deadline=30.0)
    if sys.platform == "linux":
        assert statuses(outcome) == [RankStatus.RAISED, RankStatus.RAISED]
    else:  # gloo may not notice on Windows, and the harness ends the peer
        assert outcome.reports[0].status in (RankStatus.RAISED, RankStatus.STOPPED)
        assert outcome.reports[1].status is RankStatus.RAISED
    error = outcome.reports[1].error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "planted: größer")
    assert "in fail_rank_1_in_a_collective" in error.traceback
    assert outcome.reports[1].exit_code == 1


def test_hang_while_the_peer_waits(run: Callable[..., Outcome]) -> None:
    outcome = run("hang_rank_1_in_a_collective", deadline=4.0)
    assert statuses(outcome) == [RankStatus.TIMED_OUT] * 2
    assert "all_reduce" in outcome.reports[0].stacks


def test_a_tensor_is_not_plain(run: Callable[..., Outcome]) -> None:
    outcome = run("return_a_tensor", world=1)
    assert statuses(outcome) == [RankStatus.UNREPORTABLE]
    error = outcome.reports[0].error
    assert error is not None
    assert "the result['losses'][0] is a torch.Tensor" in error.message
