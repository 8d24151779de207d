"""What README and guides say is what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from conformance.matrix import load_matrix
from conformance.model.exit_code import ExitCode
from conformance.model.verdict import Verdict

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
LANES = sorted((ROOT / "matrices" / "lanes").glob("*.toml"))
MATRIX = load_matrix()
MADE_PAGES = {f"issues/{issue.id}.md" for issue in MATRIX.known_issues} | {f"lanes/{lane}.md" for lane in MATRIX.lanes}
"""Pages that the site's build makes; guides link to them."""
SESSIONS = re.findall(
    r"^@nox\.session\(venv_backend=\"none\"\)\ndef (\w+)",
    (ROOT / "noxfile.py").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def rows(text: str) -> dict[str, list[str]]:
    """The rows of all tables, by their first column."""
    lines = [line.strip("| ").split("|") for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in lines}


def test_the_ten_lines_are_the_example() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks == [(ROOT / "examples" / "train.py").read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", LANES, ids=lambda path: path.stem)
def test_the_table_of_lanes(path: Path) -> None:
    lane = tomllib.loads(path.read_text(encoding="utf-8"))["lane"]
    launcher, transports, needs = rows(README)[lane["name"]]
    assert launcher == {"env": "environment", "mpi": "mpiexec"}[lane["launcher"]]
    assert transports.split(", ") == lane["transports"]
    assert needs.lower().startswith(lane["os"])


def test_the_table_of_verdicts() -> None:
    assert {row for row in rows(README) if row.isupper()} == {verdict.value for verdict in Verdict}


def test_the_table_of_exit_codes() -> None:
    assert {row for row in rows(README) if row.isdigit()} == {str(code.value) for code in ExitCode}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
class TestDocuments:
    def test_links_lead_somewhere(self, path: Path) -> None:
        targets = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
        here = [target for target in targets if "://" not in target and target not in MADE_PAGES]
        assert [target for target in here if not (path.parent / target).exists()] == []

    def test_files_that_are_named_exist(self, path: Path) -> None:
        names = re.findall(
            r"`((?:conformance|matrices|tests|docs|examples|reports|tools|\.github)/[\w./-]+)`",
            path.read_text(encoding="utf-8"),
        )
        assert [name for name in names if not (ROOT / name).exists()] == []

    def test_sessions_that_are_named_exist(self, path: Path) -> None:
        named = re.findall(r"nox -s (\w+)", path.read_text(encoding="utf-8"))
        assert set(named) <= set(SESSIONS)


def test_ids_that_are_named_are_cells() -> None:
    ids = {cell.id for cell in MATRIX.cells}
    form = re.compile(rf"\b((?:{'|'.join(MATRIX.suites)})/\w+\[[^\]\n]*\])")
    rooms = [ROOT / room for room in ("conformance", "reports", "tools", "docs", "examples")]
    sources = [path for room in rooms for path in room.rglob("*.py")]
    named = {
        (path.relative_to(ROOT).as_posix(), found)
        for path in [*DOCUMENTS, *sources]
        for found in form.findall(path.read_text(encoding="utf-8"))
        if not set("*?…{") & set(found)
    }
    assert named, "no id is named anywhere"
    assert sorted((path, found) for path, found in named if found not in ids) == []
