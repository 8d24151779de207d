"""The issue that says what newly fails: opened, updated, left alone and closed; and the newest of each series."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.model.record import Record, to_line
from conformance.model.verdict import Verdict
from reports.announce import LONGEST, announce, body
from reports.cli import OK, USAGE, main
from reports.compare import Difference, compare
from reports.merge import merge
from reports.newest import newest
from reports.read import Sources
from tests.reports import factory

CELLS = ("zero/train[stage=1]", "zero/train[stage=2]")


class GitHub:
    """Stands in for `gh`: what it was asked, and one issue at most."""

    def __init__(self, text: str | None = None) -> None:
        self.text = text
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, arguments: Sequence[str], given: str) -> str:
        words = tuple(arguments[:2])
        self.asked.append(words)
        assert "o/n" in arguments
        if words == ("issue", "list"):
            return json.dumps([] if self.text is None else [{"number": 7, "body": self.text}])
        if words in (("issue", "create"), ("issue", "edit")):
            self.text = given
        if words == ("issue", "close"):
            self.text = None
        return "https://example.org/7\n"


def differences(*failing: str, reason: str = "loss differs") -> list[Difference]:
    before = [factory.record(cell, Verdict.PASS) for cell in CELLS]
    after = [
        factory.record(cell, Verdict.FAIL, reason=reason) if cell in failing else factory.record(cell, Verdict.PASS)
        for cell in CELLS
    ]
    return compare(merge(before, []), merge(after, []))


def test_from_the_first_failure_to_the_last() -> None:
    github = GitHub()

    def tell(*failing: str) -> str:
        github.asked.clear()
        return announce(differences(*failing), "o/n", run_url="https://example.org/run", gh=github)

    assert tell() == "nothing newly fails, and no issue is open"
    assert github.asked == [("issue", "list")]
    assert tell(CELLS[0]) == "opened https://example.org/7"
    assert github.text is not None
    assert "`zero/train[stage=1]` on linux\\_gloo" in github.text
    assert "Seen in https://example.org/run" in github.text
    github.text = github.text.replace("\n", "\r\n")  # As GitHub gives it back.
    assert tell(CELLS[0]) == "issue 7 says so already"
    assert github.asked == [("issue", "list")]
    assert tell(*CELLS) == "updated issue 7"
    assert github.asked == [("issue", "list"), ("issue", "edit"), ("issue", "comment")]
    assert tell() == "closed issue 7"
    assert github.text is None


def test_text_from_records_notifies_nobody_and_is_no_markup() -> None:
    text = body(differences(CELLS[0], reason="@someone <img src=x> [a](https://example.org)"))
    assert "@someone" not in text
    assert "<img" not in text
    assert "](" not in text.replace("\\](", "")


def test_a_long_list_is_cut() -> None:
    (one,) = differences(CELLS[0])
    text = body([one] * (LONGEST + 5))
    assert text.count("\n- `") == LONGEST
    assert "… and 5 more" in text
    assert len(text) < 65_536


def write(folder: Path, records: Sequence[Record]) -> Path:
    folder.mkdir()
    (folder / "records.jsonl").write_text("".join(to_line(each) + "\n" for each in records), encoding="utf-8")
    return folder


def test_without_a_repository_it_is_only_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = write(tmp_path / "a", [factory.record(CELLS[0], Verdict.PASS)])
    after = write(tmp_path / "b", [factory.record(CELLS[0], Verdict.FAIL, reason="loss differs")])
    assert main(["announce", str(before), str(after)]) == OK
    assert "PASS → FAIL: loss differs" in capsys.readouterr().out


def test_a_gh_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "a", [factory.record(CELLS[0], Verdict.PASS)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["announce", str(folder), str(folder), "--repository", "o/n"]) == USAGE
    assert "install GitHub's gh" in capsys.readouterr().err


def test_the_newest_run_of_each_series_is_kept() -> None:
    def run(name: str, day: int, **changes: Any) -> Record:
        started = f"2026-03-{day:02}T02:00:00+00:00"
        commit = f"{day:040}"
        told = factory.provenance(name, git_commit=commit)
        return factory.record(CELLS[0], provenance=told, started=started, **changes)

    old, new = run("old", 1), run("new", 2)
    other = run("other", 1, lane="windows_gloo")
    kept = newest(Sources((new, old, other), (), ()))
    assert [record.provenance.run for record in kept.records] == ["new", "other"]
