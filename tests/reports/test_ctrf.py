"""CTRF JSON: valid, complete, and never kinder than the verdict."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import jsonschema
import pytest

from conformance.model.verdict import Verdict
from reports.formats import ctrf
from reports.merge import merge
from tests.reports import factory

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "ctrf-0.0.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def test_it_is_valid_and_its_counts_are_those_of_its_tests() -> None:
    document = json.loads(ctrf.render(merge(factory.lanes(), factory.headers())))
    VALIDATOR.validate(document)
    results = document["results"]
    counts = Counter(test["status"] for test in results["tests"])
    assert results["summary"]["tests"] == len(results["tests"])
    for status in ("passed", "failed", "skipped", "pending", "other"):
        assert results["summary"][status] == counts[status]


def test_an_empty_matrix_is_valid() -> None:
    VALIDATOR.validate(json.loads(ctrf.render(merge([]))))


@pytest.mark.parametrize("verdict", Verdict)
def test_only_what_holds_the_contract_is_passed(verdict: Verdict) -> None:
    document = json.loads(ctrf.render(merge([factory.record(verdict=verdict, reason="because")])))
    VALIDATOR.validate(document)
    (test,) = document["results"]["tests"]
    assert (test["status"] == "passed") == (verdict in (Verdict.PASS, Verdict.UNSUPPORTED))
    assert test["rawStatus"] == verdict
    if verdict is not Verdict.PASS:
        assert test["message"].startswith(f"{verdict}: because")


def test_partial_runs_and_unread_lines_are_told() -> None:
    matrix = merge([], [factory.header(["zero/train[stage=1]"], finished=None)])
    document = json.loads(ctrf.render(matrix))
    VALIDATOR.validate(document)
    (column,) = document["results"]["environment"]["extra"]["columns"]
    assert "has not finished" in column["partial"]
    assert [test["status"] for test in document["results"]["tests"]] == ["pending"]


def test_odd_moments_and_numbers_do_not_break_it() -> None:
    record = factory.record(verdict=Verdict.FAIL, started="yesterday", numbers={"loss": float("nan")})
    VALIDATOR.validate(json.loads(ctrf.render(merge([record]))))
