"""Bundles of checkpoints between lanes: where they lie, and what is said when they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.hosts.bundles import Bundles, promise
from conformance.hosts.ground import Ground
from conformance.hosts.probes import check
from conformance.model.verdict import NotRun

AXES = {"from": "windows_gloo", "stage": 2, "dtype": "fp32", "world": 2}


def test_a_run_that_exports_nothing_has_no_folder_for_it() -> None:
    with pytest.raises(NotRun, match="give --export-checkpoints DIR"):
        Bundles().own(AXES)


def test_a_run_that_imports_nothing_says_how_to(tmp_path: Path) -> None:
    for bundles in (Bundles(), Bundles.of_options(None, str(tmp_path), "linux_gloo")):
        with pytest.raises(NotRun, match="checkpoints that windows_gloo has exported"):
            bundles.foreign(AXES)
        with pytest.raises(NotRun, match="run windows_gloo with --export-checkpoints DIR"):
            check("import:windows_gloo", Ground(bundles=bundles))


def test_what_one_lane_exports_another_finds(tmp_path: Path) -> None:
    bundles = Bundles.of_options(str(tmp_path), str(tmp_path), "windows_gloo")
    check("export:", Ground(bundles=bundles))
    mine = bundles.own({name: value for name, value in AXES.items() if name != "from"})
    mine.mkdir(parents=True)
    with pytest.raises(NotRun, match="a checkpoint from windows_gloo"):
        bundles.foreign(AXES)
    promise(mine, 0).write_text("{}", encoding="utf-8")
    assert bundles.foreign(AXES) == mine
