"""Ranks that were started without `-m mpi4py`: an exception that nobody catches ends the whole job."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from conformance.reference import mpi_abort
from tests.mpi.mpi_jobs import HERE, Starter

SCRIPT = str(HERE / "raising_rank.py")


@pytest.mark.parametrize(("how", "transport"), [("inside", "mpi"), ("inside", "gloo"), ("bare", "mpi")])
def test_an_exception_in_one_rank_ends_the_others(start: Starter, how: str, transport: str) -> None:
    ended = start(2, [SCRIPT, how, transport], runner=())
    assert ended.code != 0, ended.output
    assert "ValueError: as asked" in ended.output
    assert "good end" not in ended.output


@pytest.mark.parametrize("how", ["good", "everywhere"])
def test_a_good_end_and_an_exception_that_is_caught_leave_nothing_behind(start: Starter, how: str) -> None:
    ended = start(2, [SCRIPT, how, "mpi"], runner=())
    assert ended.code == 0, ended.output
    assert ended.output.count(f"good end of {how}") == 2


class World:
    """MPI's world of `size` ranks, as one of them sees it."""

    def __init__(self, size: int) -> None:
        self.codes: list[int] = []
        self.COMM_WORLD = types.SimpleNamespace(Get_size=lambda: size, Abort=self.codes.append)

    @staticmethod
    def Is_initialized() -> bool:
        return True

    @staticmethod
    def Is_finalized() -> bool:
        return False


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the excepthook before ours is told."""
    told: list[Any] = []
    monkeypatch.setattr(sys, "excepthook", lambda *what: told.append(what))
    return told


def test_the_hook_before_speaks_and_then_the_job_ends(monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> None:
    world = World(2)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", world)
    before = sys.excepthook
    mpi_abort.install()
    mpi_abort.install()
    error = ValueError("as asked")
    sys.excepthook(ValueError, error, None)
    assert (told, world.codes) == ([(ValueError, error, None)], [1])
    mpi_abort.restore()
    assert sys.excepthook is before


def test_a_hook_on_top_stays_and_no_longer_ends_the_job(monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> None:
    world = World(2)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", world)
    mpi_abort.install()
    ours = sys.excepthook
    theirs = lambda *what: ours(*what)  # noqa: E731
    sys.excepthook = theirs
    mpi_abort.restore()
    assert sys.excepthook is theirs
    theirs(ValueError, ValueError(), None)
    assert len(told) == 1 and world.codes == []


@pytest.mark.parametrize("world", [None, World(1)])
def test_nothing_is_done_where_there_are_no_others(
    monkeypatch: pytest.MonkeyPatch, told: list[Any], world: World | None
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", world)
    before = sys.excepthook
    mpi_abort.install()
    assert sys.excepthook is before
