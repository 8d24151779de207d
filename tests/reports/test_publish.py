"""Publishing: what is kept can be read again, and only whole runs of a commit are kept."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from conformance.matrix import load_matrix
from conformance.matrix.known_issue import KnownIssue
from conformance.model.record import EMULATED, Record
from conformance.model.run_header import RunHeader
from conformance.model.verdict import Verdict
from reports.cli import USAGE, main
from reports.publish import PublishError, publish
from reports.read import Sources, read_sources
from tests.reports import factory

MATRIX = load_matrix()
CELL = factory.record().cell


def sources(records: list[Record], headers: list[RunHeader]) -> Sources:
    return Sources(tuple(records), tuple(headers), ())


def test_what_is_published_reads_as_it_was_and_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    given = sources([factory.record()], [factory.header([CELL])])
    (folder,) = publish(given, MATRIX, tmp_path)
    again = read_sources([tmp_path])
    assert (again.records, again.headers, again.problems) == (given.records, given.headers, ())
    packed = (folder / "records.jsonl.gz").read_bytes()
    publish(given, MATRIX, tmp_path)
    assert (folder / "records.jsonl.gz").read_bytes() == packed


def test_a_later_run_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    publish(sources([factory.record()], [factory.header([CELL])]), MATRIX, tmp_path)
    later = factory.record(provenance=factory.provenance("run-2", git_commit="2" * 40))
    (folder,) = publish(sources([later], [factory.header([CELL], run="run-2")]), MATRIX, tmp_path)
    assert read_sources([tmp_path]).records == (later,)
    assert [file.name for file in folder.glob("run*.json")] == ["run.run-2.json"]


@pytest.mark.parametrize(
    ("changes", "planned", "says"),
    [
        ({"git_dirty": True}, [CELL], "uncommitted changes"),
        ({"git_commit": None}, [CELL], "no commit"),
        ({}, [CELL, "zero/train[stage=3,dtype=bf16]"], "1 planned cells were never reported"),
        ({}, None, "no run header"),
    ],
)
def test_what_others_cannot_repeat_or_is_not_whole_is_refused(
    tmp_path: Path, changes: dict[str, Any], planned: list[str] | None, says: str
) -> None:
    record = factory.record(provenance=factory.provenance(**changes))
    headers = [] if planned is None else [factory.header(planned)]
    with pytest.raises(PublishError, match=says):
        publish(sources([record], headers), MATRIX, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_runs_of_two_commits_are_refused(tmp_path: Path) -> None:
    records = [factory.record(provenance=factory.provenance(f"run-{n}", git_commit=str(n) * 40)) for n in (1, 2)]
    headers = [factory.header([CELL], run=f"run-{n}") for n in (1, 2)]
    with pytest.raises(PublishError, match="commit 1111111 and commit 2222222"):
        publish(sources(records, headers), MATRIX, tmp_path)


def test_a_known_issue_written_after_the_run_explains_it(tmp_path: Path) -> None:
    cell = next(cell.id for cell in MATRIX.cells if (cell.suite, cell.case) == ("zero", "train"))
    failed = factory.record(cell, Verdict.FAIL, reason="loss off by 2")
    crashed = factory.record(cell, Verdict.CRASH, reason="loss off by 2", provenance=factory.provenance("run-2"))
    foreign = factory.record("zero/gone[a=1]", Verdict.FAIL, reason="loss off by 2")
    issue = KnownIssue.model_validate(
        {
            "id": "late",
            "title": "t",
            "fault": "deepspeed",
            "area": "train",
            "workaround": "w.",
            "cells": ["zero/*"],
            "expect": "FAIL",
            "match": "off by",
            "reference": "not reported",
            "explanation": "e",
            "review": "2030-01-01",
        }
    )
    given = sources([failed, crashed, foreign], [factory.header([cell]), factory.header([cell], run="run-2")])
    publish(given, dataclasses.replace(MATRIX, known_issues=(issue,)), tmp_path)
    found = {(record.cell, record.provenance.run): record for record in read_sources([tmp_path]).records}
    assert found[cell, failed.provenance.run].verdict is Verdict.XFAIL
    assert found[cell, failed.provenance.run].known_issue is not None
    assert found[cell, "run-2"] == crashed
    assert found[foreign.cell, foreign.provenance.run] == foreign


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "records.jsonl").write_text("no record\n", encoding="utf-8")
    assert main(["publish", str(tmp_path)]) == USAGE
    assert "not one record could be read" in capsys.readouterr().err


def test_an_emulated_host_is_never_published(tmp_path: Path) -> None:
    host = factory.provenance().host.model_copy(update={"host_class": f"{EMULATED}one-core"})
    provenance = factory.provenance(host=host)
    with pytest.raises(PublishError, match="emulated-one-core: the host one-core was emulated"):
        publish(sources([factory.record(provenance=provenance)], [factory.header([CELL])]), MATRIX, tmp_path)
    assert not list(tmp_path.iterdir())
