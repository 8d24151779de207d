"""Bundles of checkpoints between lanes: where they lie, and what is said when they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.hosts import bundles
from conformance.model.verdict import NotRun

AXES = {"from": "windows_gloo", "stage": 2, "dtype": "fp32", "world": 2}


@pytest.fixture(autouse=True)
def nothing_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (bundles.EXPORT, bundles.IMPORT):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_a_run_that_exports_nothing_has_no_folder_for_it() -> None:
    with pytest.raises(NotRun, match="give --export-checkpoints DIR"):
        bundles.own(AXES)


def test_a_run_that_imports_nothing_says_how_to(tmp_path: Path) -> None:
    with pytest.raises(NotRun, match="checkpoints that windows_gloo has exported"):
        bundles.foreign(AXES)
    bundles.announce(None, str(tmp_path), "linux_gloo")
    with pytest.raises(NotRun, match="run windows_gloo with --export-checkpoints DIR"):
        bundles.foreign(AXES)


def test_what_one_lane_exports_another_finds(tmp_path: Path) -> None:
    bundles.announce(str(tmp_path), str(tmp_path), "windows_gloo")
    mine = bundles.own({name: value for name, value in AXES.items() if name != "from"})
    with pytest.raises(NotRun, match="a checkpoint from windows_gloo"):
        bundles.foreign(AXES)
    bundles.promise(mine, 0).write_text("{}", encoding="utf-8")
    assert bundles.foreign(AXES) == mine
