"""What a run calls at its end."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import reports
from conformance.model.verdict import Verdict
from reports.formats import badges
from reports.merge import merge
from reports.writing import WriteError, write_text
from tests.reports import factory


def test_every_format_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "größe mit leerzeichen"
    written = reports.write_all(factory.lane(), [factory.header(factory.cell_ids(), run="linux_gloo-1")], folder)
    data = {name for name in written if name.startswith("data/")}
    assert [name.rpartition("/")[2].split(".")[0] for name in sorted(data)] == ["cells", "column-0"]
    assert set(written) - data == {
        "index.html",
        "report.md",
        "junit.xml",
        "ctrf.json",
        "badges/linux_gloo~gloo~stable~reference.svg",
        "badges/linux_gloo~gloo~stable~reference.json",
    }
    for path in written.values():
        assert path.is_file()
        path.read_text(encoding="utf-8")


def test_nothing_but_the_reports_is_left_in_the_folder(tmp_path: Path) -> None:
    reports.write_all(factory.lane(seed=2), [], tmp_path)
    written = reports.write_all(factory.lane(), [], tmp_path)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(written.values())


def test_a_failed_write_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report.md"
    write_text(file, "old")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(WriteError, match=r"report\.md: cannot write the report \(No space left on device\)"):
        write_text(file, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
    assert file.read_text(encoding="utf-8") == "old"


def test_a_folder_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(reports.WriteError, match="choose a folder that you may write to"):
        reports.write_all([factory.record()], [], tmp_path / "file")


@pytest.mark.parametrize(
    ("verdicts", "finished", "message", "colour"),
    [
        ([Verdict.PASS, Verdict.PASS], True, "2 of 2 pass", "brightgreen"),
        ([Verdict.PASS, Verdict.XFAIL], True, "1 of 2 pass", "yellow"),
        ([Verdict.PASS, Verdict.FAIL], True, "1 of 2 pass", "red"),
        ([Verdict.PASS], False, "1 of 1 pass (partial)", "yellow"),
        ([Verdict.NOT_RUN], True, "nothing ran", "lightgrey"),
        ([], True, "nothing ran", "lightgrey"),
    ],
)
def test_a_badge_is_green_only_where_all_was_tested_and_passed(
    verdicts: list[Verdict], finished: bool, message: str, colour: str
) -> None:
    ids = [f"zero/train[seed={number}]" for number in range(len(verdicts))]
    changes = {} if finished else {"finished": None}
    matrix = merge(
        [factory.record(*pair) for pair in zip(ids, verdicts, strict=True)], [factory.header(ids, **changes)]
    )
    files = badges.render(matrix)
    endpoint = json.loads(files["linux_gloo~gloo~stable~reference.json"])
    assert endpoint == {"schemaVersion": 1, "label": "Linux · CPU", "message": message, "color": colour}
    svg = ET.fromstring(files["linux_gloo~gloo~stable~reference.svg"])
    assert svg.attrib["aria-label"] == f"Linux · CPU: {message}"


def test_a_badge_is_of_the_latest_run() -> None:
    old = factory.record(
        started="2026-01-01T00:00:00Z", verdict=Verdict.FAIL, provenance=factory.provenance("old", git_commit="f" * 40)
    )
    files = badges.render(merge([factory.record(), old]))
    assert json.loads(files["linux_gloo~gloo~stable~reference.json"])["color"] == "brightgreen"
