"""Known issues' versions against what records of several stacks show."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from conformance import __main__ as command_line
from conformance.matrix.known_issue import KnownIssue
from conformance.model.cell import Cell
from conformance.model.record import KnownIssueText, Record, to_line
from conformance.model.verdict import Verdict
from conformance.run.known_ranges import contradictions
from tests.reports import factory

CELL = "zero/train[stage=2]"
CELLS = {
    id: Cell(suite="zero", case="train", axes={"stage": int(id[-2])}, title="", rules=(), deadline=1.0)
    for id in (CELL, "zero/train[stage=1]")
}
REASON = "weights off by 1.2"


def issue(**changes: object) -> KnownIssue:
    fields: dict[str, object] = {
        "id": "off",
        "title": "Off",
        "fault": "deepspeed",
        "area": "train",
        "workaround": "Do something else.",
        "cells": ["zero/train[*"],
        "versions": {"deepspeed": ">=0.17,<0.19"},
        "expect": "FAIL",
        "match": "weights off",
        "reference": "not reported",
        "explanation": "why",
        "review": datetime.date(2027, 1, 1),
    }
    return KnownIssue.model_validate(fields | changes)


def ran(deepspeed: str, verdict: Verdict, cell: str = CELL, torch: str = "2.13.0+cpu", reason: str = REASON) -> Record:
    where = factory.provenance(f"run-{deepspeed}", packages={"deepspeed": deepspeed, "torch": torch})
    text = KnownIssueText(id="off", title="Off", reference="x") if verdict is Verdict.XFAIL else None
    return factory.record(cell, verdict, reason=reason, stack=deepspeed, provenance=where, known_issue=text)


P, F, K, X = Verdict.PASS, Verdict.FAIL, Verdict.XFAIL, Verdict.XPASS


@pytest.mark.parametrize(
    ("specifier", "told", "expected"),
    [
        (">=0.17,<0.19", [("0.16.9", P), ("0.17.6", K), ("0.18.9", F), ("0.19.8", P)], None),
        (">=0.17.3,<0.18.1", [("0.16.9", P), ("0.17.6", K), ("0.18.9", P)], None),
        (">=0.18,<0.19", [("0.16.9", P), ("0.17.6", F), ("0.18.9", K)], ">=0.17.6,<0.19"),
        (">=0.16,<0.19", [("0.16.9", X), ("0.17.6", K), ("0.18.9", K)], ">=0.17.6,<0.19"),
        (">=0.17,<0.20", [("0.17.6", K), ("0.18.9", X), ("0.19.8", X)], ">=0.17,<0.18.9"),
        (">=0.17,<0.18", [("0.17.6", K), ("0.18.9", F)], ">=0.17,<0.19"),
        ("", [("0.17.6", K), ("0.18.9", X)], "<0.18.9"),
        (">=0.17,<0.20", [("0.18.9", X), ("0.19.8", X)], ">=0.17,<0.18.9"),
        (">=0.19,<0.20", [("0.18.9", P), ("0.19.8", X)], ""),
        (">=0.16,<0.20", [("0.16.9", K), ("0.17.6", X), ("0.19.8", K)], ""),
    ],
)
def test_the_range_that_records_bear_out(specifier: str, told: list[tuple[str, Verdict]], expected: str | None) -> None:
    versions = {"deepspeed": specifier} if specifier else {}
    found = contradictions([issue(versions=versions)], CELLS, [ran(*each) for each in told])
    assert [each.expected for each in found] == ([] if expected is None else [expected])


def test_what_is_told() -> None:
    (found,) = contradictions([issue()], CELLS, [ran("0.18.9", K), ran("0.16.9", F)])
    assert str(found) == (
        'issue \'off\': versions: found deepspeed = ">=0.17,<0.19", expected deepspeed = ">=0.16.9,<0.19". '
        f"{CELL} on linux_gloo with deepspeed 0.16.9: FAIL"
    )


def test_cells_of_one_version_that_differ_are_no_matter_of_versions() -> None:
    other = ran("0.18.9", X, cell="zero/train[stage=1]")
    (found,) = contradictions([issue()], CELLS, [ran("0.18.9", K), other])
    assert found.expected == ""
    assert "no one range is right: split the entry, or delete it" in str(found)


@pytest.mark.parametrize(
    "record",
    [
        ran("0.16.9", F, reason="another failure"),
        ran("0.18.9", F, reason="another failure"),
        ran("0.18.9", Verdict.NOT_RUN),
        ran("0.18.9", Verdict.UNSUPPORTED, reason="wants a GPU").model_copy(update={"integration": "accelerate"}),
        ran("0.18.9", Verdict.ERROR),
        ran("0.18.9", X, cell="zero/gone"),
    ],
)
def test_what_says_nothing_of_the_issue(record: Record) -> None:
    assert contradictions([issue()], CELLS, [record, ran("0.17.6", K)]) == []


def test_deepspeeds_own_refusal_is_an_answer() -> None:
    (found,) = contradictions([issue()], CELLS, [ran("0.18.9", Verdict.UNSUPPORTED, reason="no"), ran("0.17.6", K)])
    assert found.expected == ">=0.17,<0.18.9"


def test_an_entry_about_torch_that_changes_with_torch() -> None:
    entry = issue(versions={"torch": ">=2.12,<2.14"})
    records = [ran("0.18.9", K, torch="2.13.0"), ran("0.18.9", X, torch="2.12.0")]
    (found,) = contradictions([entry], CELLS, records)
    assert (found.package, found.expected) == ("torch", ">=2.13.0,<2.14")


def test_an_entry_about_wine_says_nothing_of_other_hosts() -> None:
    assert contradictions([issue(host="wine")], CELLS, [ran("0.18.9", P)]) == []


def test_a_race_that_was_won_contradicts_nothing() -> None:
    records = [ran("0.17.6", K), ran("0.18.9", P)]
    assert contradictions([issue(intermittent=True)], CELLS, records) == []
    (found,) = contradictions([issue(intermittent=True, versions={"deepspeed": "<0.17"})], CELLS, records)
    assert found.expected == "<0.18"


class TestCommand:
    def records(self, tmp_path: Path, *records: Record) -> str:
        (tmp_path / "records.jsonl").write_text("".join(f"{to_line(each)}\n" for each in records), encoding="utf-8")
        return str(tmp_path)

    def test_this_project_s_entries_against_a_record(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        cell = "zero/feature[feature=round_robin_gradients,stage=2,dtype=bf16,world=2,accumulation=1,clipping=false]"
        record = ran("0.19.8", F, cell=cell, reason="whatever")
        assert command_line.main(["known", self.records(tmp_path, record)]) == 0
        assert "1 records, 0 contradicted" in capsys.readouterr().out

    def test_a_folder_without_records_ends_with_2(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert command_line.main(["known", str(tmp_path / "nowhere")]) == 2
        assert "nowhere" in capsys.readouterr().err
