"""Earlier published runs: what is kept of them, what changed between them, and how a feed and a database say so."""

from __future__ import annotations

import datetime
import sqlite3
import xml.etree.ElementTree as ET
from contextlib import closing
from pathlib import Path

import pytest

from conformance.matrix import load_matrix
from conformance.model.record import Record
from conformance.model.verdict import Verdict
from reports import past_runs
from reports.formats import atom, sqlite
from reports.history import of_column
from reports.merge import merge
from reports.news import news
from reports.past_runs import PastRun
from reports.publish import publish
from reports.read import SourceError, Sources, read_sources
from tests.reports import factory

CELL = factory.record().cell
BUILT = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)


def of_run(run: str, commit: str = "1", started: str = "2026-03-01T12:00:00+00:00", **changes: object) -> Record:
    return factory.record(provenance=factory.provenance(run, git_commit=commit * 40), started=started, **changes)


def past(started: str, verdicts: dict[Verdict, tuple[str, ...]], **changes: object) -> PastRun:
    fields = {
        "series": "a~b",
        "run": started,
        "started": started,
        "commit": "1" * 40,
        "packages": {"deepspeed": "0.19.8"},
    }
    return PastRun.model_validate({**fields, "verdicts": verdicts, **changes})


class TestKeeping:
    def test_publishing_leaves_the_verdicts_of_the_run_before(self, tmp_path: Path) -> None:
        matrix = load_matrix()
        for number, verdict in enumerate((Verdict.PASS, Verdict.FAIL, Verdict.PASS)):
            run, started = f"run-{number + 1}", f"2026-03-0{number + 1}T12:00:00+00:00"
            record = of_run(run, str(number), started, verdict=verdict, reason="why")
            header = factory.header([CELL], run=run, started=started)
            publish(Sources((record,), (header,), ()), matrix, tmp_path)
        kept = past_runs.read(tmp_path)
        assert [(each.run, each.by_cell) for each in kept] == [
            ("run-1", {CELL: Verdict.PASS}),
            ("run-2", {CELL: Verdict.FAIL}),
        ]
        sources = read_sources([tmp_path])
        assert sources.problems == ()
        assert [record.provenance.run for record in sources.records] == ["run-3"]
        (column,) = merge(sources.records, sources.headers).columns
        assert [one.commit[0] for one in of_column(column, [run.as_past() for run in kept])] == ["0", "1"]

    def test_the_same_run_again_is_no_earlier_run(self, tmp_path: Path) -> None:
        given = Sources((of_run("run-1"),), (factory.header([CELL], run="run-1"),), ())
        publish(given, load_matrix(), tmp_path)
        publish(given, load_matrix(), tmp_path)
        assert past_runs.read(tmp_path) == []

    def test_what_is_none_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "past").mkdir()
        (tmp_path / "past" / "x.json.gz").write_bytes(b"no gzip")
        with pytest.raises(SourceError, match=r"x\.json\.gz: is no earlier run"):
            past_runs.read(tmp_path)

    def test_those_that_are_published_can_be_read(self) -> None:
        for run in past_runs.read(Path(past_runs.__file__).parent / "published"):
            assert run.by_cell


class TestNews:
    def test_only_what_both_runs_tried_and_what_changed_sides(self) -> None:
        before = past(
            "2026-03-01T00:00:00+00:00",
            {
                Verdict.PASS: ("breaks", "known", "not_tried", "refused", "same"),
                Verdict.FAIL: ("mended", "explained"),
                Verdict.NOT_RUN: ("new_host",),
            },
        )
        after = past(
            "2026-03-02T00:00:00+00:00",
            {
                Verdict.FAIL: ("breaks",),
                Verdict.XFAIL: ("known", "explained"),
                Verdict.NOT_RUN: ("not_tried",),
                Verdict.UNSUPPORTED: ("refused",),
                Verdict.PASS: ("same", "mended", "new_host", "new"),
            },
            packages={"deepspeed": "0.20.0"},
        )
        (one,) = news([after, before])
        assert [change.cell for change in one.fails] == ["breaks", "known"]
        assert [change.cell for change in one.works] == ["mended"]
        assert one.releases == {"deepspeed": ("0.19.8", "0.20.0")}

    def test_another_series_is_no_earlier_run(self) -> None:
        runs = [
            past("2026-03-01T00:00:00+00:00", {Verdict.PASS: ("x",)}),
            past("2026-03-02T00:00:00+00:00", {Verdict.FAIL: ("x",)}, series="other"),
        ]
        assert news(runs) == []


class TestFeed:
    def runs(self) -> list[PastRun]:
        return [
            past("2026-03-01T00:00:00+00:00", {Verdict.PASS: ("zero/<x>[a=1]", "two")}),
            past("2026-03-02T00:00:00+00:00", {Verdict.FAIL: ("zero/<x>[a=1]",), Verdict.PASS: ("two",)}),
        ]

    def test_an_entry_says_what_fails(self) -> None:
        text = atom.render(news(self.runs()), built=BUILT, feed="https://a.test/feed.xml", page="https://a.test/")
        root = ET.fromstring(text)
        (entry,) = root.findall(f"{{{atom.ATOM}}}entry")
        assert entry.findtext(f"{{{atom.ATOM}}}title") == "a · b: 1 cell newly fails"
        assert entry.findtext(f"{{{atom.ATOM}}}updated") == "2026-03-02T00:00:00Z"
        content = entry.findtext(f"{{{atom.ATOM}}}content") or ""
        assert "<code>zero/&lt;x&gt;[a=1]</code>: PASS → FAIL" in content
        assert {link.get("rel") for link in root.findall(f"{{{atom.ATOM}}}link")} == {"self", "alternate"}

    def test_the_same_runs_have_the_same_ids(self) -> None:
        first, second = (ET.fromstring(atom.render(news(self.runs()), built=BUILT)) for _ in range(2))
        ids = [each.text for each in first.iter(f"{{{atom.ATOM}}}id")]
        assert ids == [each.text for each in second.iter(f"{{{atom.ATOM}}}id")]
        assert len(set(ids)) == len(ids) == 2

    def test_without_news_it_is_a_feed_all_the_same(self) -> None:
        root = ET.fromstring(atom.render([], built=BUILT))
        assert root.findtext(f"{{{atom.ATOM}}}updated") == "2026-03-02T00:00:00Z"


def test_the_database_holds_records_as_they_are(tmp_path: Path) -> None:
    records = list(factory.lane())
    sqlite.write(tmp_path / "records.sqlite", records, [past("2026-03-01T00:00:00+00:00", {Verdict.PASS: ("x",)})])
    with closing(sqlite3.connect(tmp_path / "records.sqlite")) as database:
        ask = database.execute
        counted = dict(ask("SELECT verdict, count(*) FROM records GROUP BY verdict").fetchall())
        assert sum(counted.values()) == len(records)
        assert counted["PASS"] == sum(record.verdict is Verdict.PASS for record in records)
        assert ask("SELECT count(*) FROM axes").fetchone() == (sum(len(record.axes) for record in records),)
        assert ask("SELECT count(*) FROM numbers").fetchone() == (sum(len(record.numbers) for record in records),)
        joined = "SELECT count(*) FROM records JOIN provenance ON provenance.id = records.provenance"
        assert ask(joined).fetchone() == (len(records),)
        assert ask("SELECT cell, verdict, deepspeed FROM past").fetchall() == [("x", "PASS", "0.19.8")]
        assert ask("PRAGMA foreign_key_check").fetchall() == []
