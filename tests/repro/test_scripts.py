"""Scripts of cells: they compile, name nothing that is not there, and show what the cell shows."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.matrix import load_matrix
from conformance.model.cell import Cell
from conformance.repro.script import Wanted, check_of, script

MATRIX = load_matrix()
ALONE = {
    "zero/train[stage=2,dtype=fp32,world=1,accumulation=2,clipping=true]": "PASS",
    "collectives/operation[operation=all_reduce,dtype=fp32,shape=strided,members=world,world=2]": "FAIL",
}
"""Cells whose scripts are run, and what they come to."""


def some_cells() -> list[Cell]:
    """The last cell of every case that needs nothing from another lane."""
    cases = itertools.groupby(MATRIX.cells, key=lambda cell: (cell.suite, cell.case))
    return [list(cells)[-1] for (suite, _), cells in cases if suite != "interchange"]


def text_of(cell: Cell, integration: str = "deepspeed") -> str:
    lane = MATRIX.lanes[next(name for name in MATRIX.lanes if cell.lanes is None or name in cell.lanes)]
    return script(Wanted(cell, lane, lane.transports[0], integration, "", "this test"), MATRIX, check_of(cell))


def cell_of(name: str) -> Cell:
    (found,) = [cell for cell in MATRIX.cells if cell.id == name]
    return found


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Scripts by cell id."""
    return {cell.id: text_of(cell) for cell in some_cells()}


def test_scripts_compile_and_know_all_their_names(texts: dict[str, str], tmp_path: Path) -> None:
    for number, (cell, text) in enumerate(texts.items()):
        compile(text, cell, "exec")
        (tmp_path / f"script_{number}.py").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--select",
        "F821,F811",
        str(tmp_path),
    ]
    found = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert found.returncode == 0, found.stdout + found.stderr


def test_most_scripts_need_nothing_of_this_project(texts: dict[str, str]) -> None:
    needing = [cell for cell, text in texts.items() if "\nfrom conformance." in text]
    assert len(needing) < len(texts) / 5, needing
    # They start processes of their own, which know the harness by name.
    assert all(cell.startswith(("initialize/", "launch/", "lightning/killed[")) for cell in needing), needing
    assert all("It also needs the package `conformance`" in texts[cell] for cell in needing)


def test_the_reference_can_be_shown_too() -> None:
    cell = cell_of(next(iter(ALONE)))
    assert "class BareDeepSpeed" in text_of(cell)
    assert "class Reference" in text_of(cell, "reference")


@pytest.mark.parametrize(("cell", "verdict"), ALONE.items(), ids=[cell.partition("[")[0] for cell in ALONE])
def test_a_script_alone_shows_what_its_cell_shows(cell: str, verdict: str, tmp_path: Path) -> None:
    file = tmp_path / "a script.py"
    assert main(["repro", cell, "--into", str(file)]) == 0
    done = subprocess.run(
        [sys.executable, "-P", str(file)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        cwd=tmp_path,
        timeout=300,
    )
    last = done.stdout.strip().splitlines()[-1]
    assert last.partition(":")[0] == verdict, f"{last}\n{done.stderr[-2000:]}"
    assert done.returncode == (verdict == "FAIL")
    if verdict == "FAIL":
        issues = [each for each in MATRIX.known_issues if each.covers(cell_of(cell), "linux_gloo", "gloo", "deepspeed")]
        assert any(re.search(issue.match, last) for issue in issues), f"not the failure that is known: {last}"


def test_an_unknown_cell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repro", "zero/train[stage=9]"]) == 2
    assert "error: CELL: found 'zero/train[stage=9]', expected a cell's id in full" in capsys.readouterr().err
