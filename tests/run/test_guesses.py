"""Known issues of which no record speaks."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from conformance import __main__ as command_line
from conformance.matrix.known_issue import KnownIssue
from conformance.matrix.lane import Lane
from conformance.model.cell import Cell
from conformance.model.record import Host, KnownIssueText, Record, to_line
from conformance.model.verdict import Verdict
from conformance.run.guesses import guesses
from tests.reports import factory

CELL = Cell("zero", "train", {"stage": 2}, "", (), 1.0)
OTHER = Cell("zero", "other", {"stage": 2}, "", (), 1.0)
LANES = [
    Lane(
        name=name,
        title="t",
        os="linux",
        launcher="env",
        transports=("gloo",),
        device="cpu",
        ranks="forked",
    )
    for name in ("linux_gloo", "linux_nccl")
]
ABLE = factory.LINUX.model_copy(update={"capabilities": {"fp16": True}})


def issue(**changes: object) -> KnownIssue:
    fields: dict[str, object] = {
        "id": "off",
        "title": "Off",
        "fault": "deepspeed",
        "area": "train",
        "workaround": "Do something else.",
        "cells": ["zero/train[*"],
        "expect": "FAIL",
        "match": "weights off",
        "reference": "not reported",
        "explanation": "why",
        "review": datetime.date(2027, 1, 1),
    }
    return KnownIssue.model_validate(fields | changes)


def ran(verdict: Verdict = Verdict.FAIL, host: Host = factory.LINUX, cell: Cell = CELL, by: str = "") -> Record:
    text = KnownIssueText(id=by, title="t", reference="r") if by else None
    return factory.record(cell.id, verdict, reason="r", provenance=factory.provenance(host=host), known_issue=text)


@pytest.mark.parametrize(
    ("entry", "records", "lacks"),
    [
        (issue(), [ran()], ""),
        (issue(), [], "lane linux_gloo or linux_nccl"),
        (issue(), [ran(Verdict.NOT_RUN)], "lane linux_gloo or linux_nccl"),
        (issue(lanes=["linux_nccl"]), [ran()], "lane linux_nccl"),
        (issue(), [ran(cell=OTHER)], "its cells there"),
        (issue(integrations=["deepspeed"]), [ran()], "its cells there"),
        (issue(capabilities={"fp16": True}), [ran()], "its cells on a host with fp16 = true"),
        (issue(capabilities={"fp16": True}), [ran(host=ABLE)], ""),
        (issue(capabilities={"fp16": True}), [ran(Verdict.XFAIL, by="off")], ""),
        (issue(capabilities={"fp16": True}), [ran(Verdict.XFAIL, by="other")], "its cells on a host with fp16 = true"),
        (
            issue(host="wine", capabilities={"fp16": True}),
            [ran(host=ABLE)],
            "its cells on a host with Wine, fp16 = true",
        ),
        (issue(versions={"deepspeed": ">=9"}), [ran()], "its cells with deepspeed >=9"),
    ],
)
def test_what_no_record_speaks_of(entry: KnownIssue, records: list[Record], lacks: str) -> None:
    found = guesses([entry], {cell.id: cell for cell in (CELL, OTHER)}, LANES, records)
    assert [each.lacks for each in found] == ([lacks] if lacks else [])


def test_a_case_of_some_lanes_waits_for_those_only() -> None:
    cell = Cell("zero", "train", {"stage": 2}, "", (), 1.0, lanes=("linux_nccl",))
    (found,) = guesses([issue()], {cell.id: cell}, LANES, [])
    assert str(found) == "issue 'off': guess: no record of lane linux_nccl"


def test_the_command_tells_guesses_and_is_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "records.jsonl"
    id = "zero/train[stage=0,dtype=fp32,world=1,accumulation=1,clipping=false]"
    file.write_text(to_line(factory.record(id, Verdict.PASS)) + "\n", encoding="utf-8")
    assert command_line.main(["known", str(file)]) == 0
    assert "issue 'torch-and-long-windows-paths': guess: no record of lane windows_gloo" in capsys.readouterr().out
