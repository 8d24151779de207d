"""JUnit XML: valid, complete, and never kinder than the verdict."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.model.verdict import Verdict
from reports.formats import junit
from reports.merge import merge
from tests.reports import factory

SCHEMA = Path(__file__).parent / "schemas" / "junit-10.xsd"


def everything() -> str:
    return junit.render(merge(factory.lanes(), factory.headers(), now=factory.STARTED))


def test_it_is_valid_as_jenkins_reads_it() -> None:
    xmlschema = pytest.importorskip("xmlschema", reason="needs the package xmlschema")
    xmlschema.XMLSchema(SCHEMA).validate(everything())


def test_it_has_what_ants_schema_asks_for_too() -> None:
    root = ET.fromstring(everything())
    assert root.attrib == {}
    for number, suite in enumerate(root):
        assert {"name", "package", "id", "timestamp", "hostname", "tests", "failures", "errors", "time"} <= set(
            suite.attrib
        )
        assert suite.attrib["id"] == str(number)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
        tags = [child.tag for child in suite]
        assert tags[0] == "properties"
        assert tags[-2:] == ["system-out", "system-err"]
        assert set(tags[1:-2]) == {"testcase"}
        for case in suite.iter("testcase"):
            assert {"name", "classname", "time"} <= set(case.attrib)
            assert len(case) <= 1
            assert all("type" in child.attrib for child in case if child.tag in ("failure", "error"))


@pytest.mark.parametrize(
    ("verdict", "tag"),
    [
        (Verdict.PASS, None),
        (Verdict.UNSUPPORTED, None),
        (Verdict.FAIL, "failure"),
        (Verdict.CRASH, "failure"),
        (Verdict.TIMEOUT, "failure"),
        (Verdict.XPASS, "failure"),
        (Verdict.ERROR, "error"),
        (Verdict.XFAIL, "skipped"),
        (Verdict.NOT_RUN, "skipped"),
        (Verdict.NO_DATA, "skipped"),
    ],
)
def test_each_verdict_has_its_element(verdict: Verdict, tag: str | None) -> None:
    record = factory.record(verdict=verdict, reason="because", remedy="do this")
    (case,) = ET.fromstring(junit.render(merge([record]))).iter("testcase")
    assert [child.tag for child in case] == ([tag] if tag else [])
    for child in case:
        assert child.attrib["message"].startswith(f"{verdict}: because")
        assert "do this" in child.attrib["message"]


def test_the_counts_are_those_of_the_elements() -> None:
    for suite in ET.fromstring(everything()):
        assert int(suite.attrib["tests"]) == len(list(suite.iter("testcase")))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[attribute]) == len(list(suite.iter(tag)))


def test_a_planned_cell_that_was_never_reported_is_skipped_and_the_suite_says_partial() -> None:
    headers = [factory.header(["zero/train[stage=1]", "zero/train[stage=2]"], interrupted=True)]
    root = ET.fromstring(junit.render(merge([factory.record("zero/train[stage=1]")], headers)))
    assert [case.attrib["name"] for case in root.iter("testcase") if case.find("skipped") is not None] == [
        "zero/train[stage=2]"
    ]
    assert "PARTIAL: run run-1 was interrupted" in (root.findtext("testsuite/system-out") or "")


def test_an_empty_matrix_is_valid() -> None:
    xmlschema = pytest.importorskip("xmlschema", reason="needs the package xmlschema")
    xmlschema.XMLSchema(SCHEMA).validate(junit.render(merge([])))


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_makes_well_formed_xml(text: str) -> None:
    record = factory.record(verdict=Verdict.FAIL, reason=text, log=text, title=text)
    (failure,) = ET.fromstring(junit.render(merge([record])).encode("utf-8")).iter("failure")
    assert failure.attrib["type"] == "FAIL"
