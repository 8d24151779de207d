"""Processes of the harness itself that end before they have connected: told at once, with the end of their log."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable

import pytest

from conformance.ranks import Job, open_pool
from tests.ranks.rank_support import interrupts

JobMaker = Callable[..., Job]
AT_ONCE = 20.0
"""Seconds that an interpreter may take to start and end on a busy host; without a look at it, it would be 60 to 300."""
MODES = ["cold", "prewarmed", *(["forked"] if sys.platform == "linux" else [])]


def ends_as(role: str) -> list[str]:
    """An interpreter for ranks and agents, of which those with this role end before they connect."""
    code = (
        "import runpy, sys; sys.argv = sys.argv[2:]\n"
        f"if sys.argv[1] in {role.split()}: sys.exit('no room on this host')\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("mode", MODES)
def test_what_starts_ranks_ends_before_it_connects(make_job: JobMaker, mode: str) -> None:
    begin = time.monotonic()
    pool = open_pool(mode=mode, python=ends_as("agent rank"), preload=())
    try:
        for _ in range(2):
            outcome = pool.run(make_job("echo"))
            assert outcome.harness_error is not None
            assert "no room on this host" in outcome.harness_error
            assert "exit code 1" in outcome.harness_error
            assert outcome.reports == ()
        assert time.monotonic() - begin < AT_ONCE
    finally:
        pool.close()


@pytest.mark.parametrize("mode", ["cold", "prewarmed"])
def test_a_rank_ends_before_it_connects(make_job: JobMaker, mode: str) -> None:
    begin = time.monotonic()
    pool = open_pool(mode=mode, python=ends_as("rank"), preload=())
    try:
        outcome = pool.run(make_job("echo"))
        assert outcome.harness_error is not None
        assert "no room on this host" in outcome.harness_error
        assert time.monotonic() - begin < AT_ONCE
    finally:
        pool.close()


@pytest.mark.skipif(sys.platform != "linux", reason="Windows has no signals to inherit")
@pytest.mark.parametrize("mode", MODES)
def test_ranks_heed_signals_that_the_harness_was_told_to_ignore(make_job: JobMaker, mode: str) -> None:
    hup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        with interrupts(signal.SIG_IGN):
            pool = open_pool(mode=mode, preload=("json",))
            outcome = pool.run(make_job("signals"))
            pool.close()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        signal.signal(signal.SIGHUP, hup)
    assert outcome.harness_error is None
    for report in outcome.reports:
        assert report.observation == {"ignored": ["SIGPIPE", "SIGXFSZ"], "held": [], "interrupt": True}
