"""The site: it builds without a warning, its links lead somewhere, and its reference leaves nothing out."""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Iterator
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest

import conformance.reference
from conformance.matrix import load_matrix
from conformance.model.exit_code import ExitCode
from conformance.model.record import KnownIssueText, Provenance, Record, to_line
from conformance.model.run_header import RunHeader, to_text
from conformance.model.verdict import Verdict
from tests.reports import factory

pytest.importorskip("sphinx", reason="needs the packages of the group docs")

from docs import address, sitemap
from docs.links import broken_links
from docs.pages import feature
from docs.pages import issue as issue_page
from docs.published import Published
from reports import download
from reports.formats.atom import ATOM
from reports.merge import merge
from reports.news import news
from reports.past_runs import of_matrix
from reports.read import Sources

ADDRESS = "https://conformance.test/deep/"
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
    published = {
        address.SITE: ADDRESS,
        "GITHUB_SERVER_URL": "https://git.test",
        "GITHUB_REPOSITORY": "someone/something",
    }
    built = subprocess.run(
        words, cwd=ROOT, env={**os.environ, **published}, capture_output=True, encoding="utf-8", timeout=900
    )
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


def head_of(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("</head>")[0]


class TestPagesOfTheirOwn:
    def test_each_feature_issue_rule_and_lane_has_one(self, site: Path) -> None:
        matrix = load_matrix()
        wanted = {
            *(f"features/{headline.name}" for headline in feature.headlines()),
            *(f"issues/{issue.id}" for issue in matrix.known_issues),
            *(f"rules/{rule.lower()}" for rule in matrix.rules),
            *(f"lanes/{lane}" for lane in matrix.lanes),
        }
        assert [path for path in sorted(wanted) if not (site / f"{path}.html").is_file()] == []

    def test_each_says_what_it_is_about(self, site: Path) -> None:
        matrix = load_matrix()
        for issue in matrix.known_issues:
            assert missing(site, f"issues/{issue.id}", iter([issue.title.replace("`", "")])) == []
        for rule in matrix.rules.values():
            text = " ".join(rule.text.replace("`", "").split())
            assert missing(site, f"rules/{rule.id.lower()}", iter([text])) == []

    def test_a_search_engine_gets_a_title_a_description_and_one_address(self, site: Path) -> None:
        titles: dict[str, str] = {}
        for folder in ("features", "issues", "rules", "lanes"):
            for page in (site / folder).glob("*.html"):
                head = head_of(page)
                name = page.relative_to(site).as_posix()
                assert f'<link rel="canonical" href="{ADDRESS}{name}">' in head, name
                assert re.search(r'<meta content="[^"]{20,}" name="description"', head), name
                (title,) = re.findall("<title>(.*?)</title>", head)
                assert titles.setdefault(title, name) == name

    def test_an_issue_shows_the_error_text_of_the_records(self) -> None:
        issue = load_matrix().known_issues[0]
        text = KnownIssueText(id=issue.id, title=issue.title, reference=issue.reference)
        reason = "rank 0: TypeError: int() argument must be `a` string, not 'NoneType'\nsecond line"
        record = factory.record(verdict=Verdict.XFAIL, reason=reason, known_issue=text)
        sources = Sources((record,), (), ())
        published = Published(load_matrix(), merge(sources.records, ()), sources, ())
        (page,) = [page for page in issue_page.pages(published) if page.path == f"issues/{issue.id}"]
        assert f"```text\n{reason}\n```" in page.body
        assert record.cell in page.body


class TestSearchEngines:
    def test_the_sitemap_has_every_page_and_no_other(self, site: Path) -> None:
        root = ET.parse(site / sitemap.NAME).getroot()
        listed = [url.findtext(f"{{{sitemap.NAMESPACE}}}loc") or "" for url in root]
        assert len(listed) == len(set(listed))
        assert all(one.startswith(ADDRESS) and (site / one.removeprefix(ADDRESS)).is_file() for one in listed)
        pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
        assert pages - {one.removeprefix(ADDRESS) for one in listed} <= set(sitemap.LEFT_OUT)

    def test_the_page_for_what_is_not_found_works_at_any_depth(self, site: Path) -> None:
        head = head_of(site / "404.html")
        assert f'<base href="{ADDRESS}">' in head
        assert head.index("<base") < head.index("href=", head.index("<base") + len("<base href="))
        assert 'rel="canonical"' not in head

    def test_no_address_is_a_placeholder(self, site: Path) -> None:
        placeholder = re.compile(r"\bexample\.(?:org|com|net)\b|https?://[^\s\"<]*/[A-Z]{4,}\b|git clone [A-Z]+\b|TODO")
        for page in site.rglob("*.html"):
            if "report" not in page.relative_to(site).parts:
                found = placeholder.search(page.read_text(encoding="utf-8"))
                assert found is None, f"{page}: {found}"

    def test_the_report_leads_back_to_the_site_and_to_the_repository(self, site: Path) -> None:
        text = (site / "report" / "index.html").read_text(encoding="utf-8")
        targets = set(re.findall(r'<a href="([^"#]+)"', text))
        assert {"../index.html", "https://git.test/someone/something"} <= targets
        assert any(target.startswith("https://git.test/someone/something/issues/new?") for target in targets)
        assert [each for each in targets if each.startswith("../") and not (site / "report" / each).is_file()] == []

    def test_every_page_leads_to_the_repository_and_to_where_errors_are_reported(self, site: Path) -> None:
        for name in ("index", "issues/zero-to-fp32-of-stage-0", "reference/rules"):
            text = (site / f"{name}.html").read_text(encoding="utf-8")
            assert 'href="https://git.test/someone/something"' in text
            assert 'href="https://git.test/someone/something/issues/new?title=' in text
        assert "git clone https://git.test/someone/something.git" in words_of(site, "ci")


@pytest.mark.parametrize(
    ("variables", "site_address", "repository"),
    [
        ({}, "", ""),
        ({"CONFORMANCE_SITE": "https://a.test/b"}, "https://a.test/b/", ""),
        (
            {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "Some/thing"},
            "https://some.github.io/thing/",
            "https://github.com/Some/thing",
        ),
        ({"GITHUB_REPOSITORY": "Some/some.github.io"}, "https://some.github.io/", ""),
        ({"CONFORMANCE_SITE": "https://a.test/", "GITHUB_REPOSITORY": "o/n"}, "https://a.test/", ""),
    ],
)
def test_the_address_is_one_setting(variables: dict[str, str], site_address: str, repository: str) -> None:
    assert (address.site(variables), address.repository(variables)) == (site_address, repository)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="CONFORMANCE_SITE: found 'my site', expected"):
        address.site({"CONFORMANCE_SITE": "my site"})


class TestData:
    def test_json_lines_hold_every_record(self, site: Path) -> None:
        lines = gzip.decompress((site / "data" / download.RECORDS).read_bytes()).decode("utf-8").splitlines()
        assert lines == [to_line(record) for record in factory.lane()]

    def test_records_follow_the_schema_beside_them(self, site: Path) -> None:
        jsonschema = pytest.importorskip("jsonschema")
        schema = json.loads((site / "data" / download.RECORD_SCHEMA).read_text(encoding="utf-8"))
        lines = gzip.decompress((site / "data" / download.RECORDS).read_bytes()).decode("utf-8").splitlines()
        for line in lines[:50]:
            jsonschema.validate(json.loads(line), schema)

    def test_the_database_opens_and_answers_what_the_guide_asks(self, site: Path, tmp_path: Path) -> None:
        zipfile.ZipFile(site / "data" / download.PACKED_DATABASE).extract(download.DATABASE, tmp_path)
        with closing(sqlite3.connect(tmp_path / download.DATABASE)) as database:
            (count,) = database.execute("SELECT count(*) FROM records").fetchone()
            assert count == len(list(factory.lane()))
            guide = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
            questions = re.findall(r"```sql\n(.*?)```", guide, re.DOTALL)
            assert len(questions) >= 3
            for question in questions:
                database.execute(question).fetchall()

    def test_the_feed_is_one(self, site: Path) -> None:
        root = ET.parse(site / "feed.xml").getroot()
        assert root.tag == f"{{{ATOM}}}feed"
        for name in ("title", "id", "updated"):
            assert root.findtext(f"{{{ATOM}}}{name}"), name
        for page in ("index", "rules/zero-01"):
            head = head_of(site / f"{page}.html")
            assert re.search(r'<link rel="alternate" type="application/atom\+xml" [^>]*href="(?:\.\./)*feed.xml"', head)


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
        text = (site / "reference" / "known-issues.html").read_text(encoding="utf-8")
        assert [issue.id for issue in matrix.known_issues if f'id="{issue.id}"' not in text] == []

    def test_the_reference_integration(self, site: Path) -> None:
        text = (site / "reference" / "api.html").read_text(encoding="utf-8")
        callables = (name for name in conformance.reference.__all__ if not name.isupper())
        assert [name for name in callables if f'id="conformance.reference.{name}"' not in text] == []


def test_of_several_nights_the_older_are_the_past(tmp_path: Path) -> None:
    for day, verdict in (("1", Verdict.PASS), ("2", Verdict.FAIL)):
        provenance = factory.provenance(f"run-{day}", git_commit=day * 40)
        record = factory.record(
            provenance=provenance, started=f"2026-03-0{day}T12:00:00+00:00", verdict=verdict, reason="why"
        )
        (tmp_path / day).mkdir()
        (tmp_path / day / "records.jsonl").write_text(to_line(record) + "\n", encoding="utf-8")
    published = Published.read([tmp_path])
    assert [record.verdict for _, record in published.records()] == [Verdict.FAIL]
    assert [run.run for run in published.past] == ["run-1"]
    (changed,) = news([*published.past, *of_matrix(published.results)])
    assert [change.cell for change in changed.fails] == [factory.record().cell]


def test_without_records_it_is_not_built(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "docs", "--records", str(tmp_path), "--into", str(tmp_path / "site")]
    built = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120)
    assert built.returncode == 2
    assert str(tmp_path) in built.stderr
    assert not (tmp_path / "site" / "index.html").exists()
