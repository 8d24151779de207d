"""The site: it builds without a warning, its links lead somewhere, and its reference leaves nothing out."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import conformance.reference
from conformance.matrix import load_matrix
from conformance.model.exit_code import ExitCode
from conformance.model.record import Provenance, Record, to_line
from conformance.model.run_header import RunHeader, to_text
from conformance.model.verdict import Verdict
from tests.reports import factory

pytest.importorskip("sphinx", reason="needs the packages of the group docs")

from docs.links import broken_links

ROOT = Path(__file__).resolve().parents[2]


class Words(HTMLParser):
    """What a page shows, less its navigation."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.words = ""
        self.feed(text[text.index("<article") : text.index("</article>")])
        self.close()

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("große docs")
    lines = "".join(to_line(record) + "\n" for record in factory.lane())
    (folder / "records.jsonl").write_text(lines, encoding="utf-8")
    (folder / "run.json").write_text(to_text(factory.header(factory.cell_ids())), encoding="utf-8")
    words = [sys.executable, "-m", "docs", "--records", str(folder), "--into", str(folder / "site")]
    built = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=600)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


def words_of(site: Path, page: str) -> str:
    return " ".join(Words((site / f"{page}.html").read_text(encoding="utf-8")).words.split())


def missing(site: Path, page: str, expected: Iterator[str]) -> list[str]:
    words = words_of(site, page)
    wanted = list(expected)
    assert wanted
    return [text for text in wanted if text not in words]


def test_every_link_leads_somewhere_and_nothing_comes_from_the_network(site: Path) -> None:
    assert broken_links(site) == []
    remote = re.compile(r"""(?:url\(|@import\s)\s*["']?(?:https?:)?//""")
    styles = list(site.rglob("*.css"))
    assert styles
    assert [path for path in styles if remote.search(path.read_text(encoding="utf-8"))] == []


def test_the_report_is_part_of_it(site: Path) -> None:
    for name in ("index.html", "report.md", "junit.xml", "ctrf.json"):
        assert (site / "report" / name).is_file()
    assert list((site / "report" / "badges").glob("*.svg"))
    assert 'href="report/index.html#summary"' in (site / "index.html").read_text(encoding="utf-8")
    assert 'href="../report/index.html"' in (site / "reference" / "rules.html").read_text(encoding="utf-8")


def test_each_guide_is_a_page(site: Path) -> None:
    for path in ROOT.glob("docs/*.md"):
        assert (site / f"{path.stem}.html").is_file()


class TestReference:
    def test_options(self, site: Path) -> None:
        source = (ROOT / "conformance" / "plugin.py").read_text(encoding="utf-8")
        assert missing(site, "reference/options", iter(re.findall(r'add\("(--[\w-]+)"', source))) == []

    def test_sessions(self, site: Path) -> None:
        source = (ROOT / "noxfile.py").read_text(encoding="utf-8")
        told = re.findall(r'^def (\w+)\(session: nox\.Session\) -> None:\n    """(.*?)"""$', source, re.MULTILINE)
        assert missing(site, "reference/sessions", (f"{name} {text}" for name, text in told)) == []

    def test_verdicts_and_exit_codes(self, site: Path) -> None:
        words = words_of(site, "reference/verdicts")
        for verdict in Verdict:
            expected = "as expected" if verdict.expected else "exit code"
            assert re.search(rf"\b{verdict} [^|]*?{expected}", words), verdict
        for code in ExitCode:
            assert re.search(rf" {code.value} [A-Z]", words), code

    def test_records(self, site: Path) -> None:
        names = (name for model in (Record, Provenance, RunHeader) for name in model.model_fields)
        assert missing(site, "reference/records", names) == []

    def test_lanes_cases_rules_and_known_issues(self, site: Path) -> None:
        matrix = load_matrix()
        assert missing(site, "reference/lanes", iter(matrix.lanes)) == []
        assert missing(site, "reference/cases", (cell.title.replace("`", "") for cell in matrix.cells)) == []
        assert missing(site, "reference/rules", (f"{rule.id}" for rule in matrix.rules.values())) == []
        assert missing(site, "reference/known-issues", (issue.id for issue in matrix.known_issues)) == []

    def test_the_reference_integration(self, site: Path) -> None:
        text = (site / "reference" / "api.html").read_text(encoding="utf-8")
        callables = (name for name in conformance.reference.__all__ if not name.isupper())
        assert [name for name in callables if f'id="conformance.reference.{name}"' not in text] == []


def test_without_records_it_is_not_built(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "docs", "--records", str(tmp_path), "--into", str(tmp_path / "site")]
    built = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120)
    assert built.returncode == 2
    assert str(tmp_path) in built.stderr
    assert not (tmp_path / "site" / "index.html").exists()
