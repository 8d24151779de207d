"""The page without its script: what it says, what it weighs, and what it cannot do."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from conformance.model.record import KnownIssueText, Record, RuleText
from conformance.model.verdict import Verdict
from reports import pack
from reports.formats import html
from reports.matrix import Problem
from reports.merge import merge
from tests.reports import factory

NASTY = "</script><script>window.pwned = 1</script><!-- <img src=x onerror=alert(1)> \u2028 {{ 7 * 7 }}"


class Page(HTMLParser):
    """A page as a browser without JavaScript sees it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.words = ""
        self.scripts: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._inside: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag in ("script", "style"):
            self._inside = str(attributes.get("id") or tag)
            self.scripts[self._inside] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.words += data
        else:
            self.scripts[self._inside] += data


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return html.render(merge(factory.lanes(), factory.headers()))


@pytest.fixture(scope="module")
def text(files: dict[str, str]) -> str:
    return files["index.html"]


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def indexed(files: dict[str, str]) -> dict[str, Any]:
    """What is in the page itself."""
    found: dict[str, Any] = json.loads(Page(files["index.html"]).scripts["data"])
    return found


def loaded(files: dict[str, str], name: str) -> Any:
    """The value that a file of data gives the page."""
    match = re.fullmatch(r"conformanceData\((\".*?\"), (.*)\);\n", files[name], re.DOTALL)
    assert match is not None
    assert name.startswith(f"data/{json.loads(match[1])}.")
    return json.loads(match[2])


def cells_of(files: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = loaded(files, indexed(files)["files"]["cells"])
    return found


def opened(files: dict[str, str], suite: int, column: int) -> dict[str, Any]:
    block = loaded(files, indexed(files)["files"]["columns"][column])[str(suite)]
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(block)))
    return found


def test_without_its_script_it_answers_what_works_where(page: Page) -> None:
    words = " ".join(page.words.split())
    for expected in (
        "What works where",
        "Train with ZeRO 3",
        "works in part",
        "fp16 refused",
        "not tested",
        "81 pass, 1 fail",
        "Wine 8.0, not Windows itself",
        "2 × NVIDIA H100 80GB",
        "deepspeed 0.19.8",
        "Partial: Windows · mpiexec · MPI transport · CPU, under Wine.",
        "rank 1 died: SIGSEGV",
        "Remedy: run the NVMe cells on a Linux lane.",
        "96 cells",
        "8 FAIL",
        "fp32 parameters on NVMe are stored as bf16",
        "What fails, and is known",
        "The harness itself failed",
    ):
        assert expected in words


def test_it_needs_no_network(page: Page, text: str) -> None:
    for tag, attributes in page.tags:
        assert tag not in ("iframe", "object", "embed", "img", "base")
        for name in ("src", "srcset", "data", "action", "poster"):
            assert name not in attributes
        if tag == "link":
            assert attributes["href"] == "data:,"
        if tag == "use":
            assert str(attributes["href"]).startswith("#")
        assert not [name for name in attributes if name.startswith("on")]
    style = page.scripts["style"]
    assert "url(" not in style
    assert "@import" not in style
    assert "http:" not in page.scripts["script"].replace("http://www.w3.org/2000/svg", "")


def test_its_policy_allows_its_own_script_and_what_that_loads_alone(page: Page) -> None:
    (policy,) = [a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    digest = base64.b64encode(hashlib.sha256(page.scripts["script"].encode("utf-8")).digest()).decode("ascii")
    assert f"script-src 'sha256-{digest}' 'strict-dynamic';" in policy
    assert policy.startswith("default-src 'none'")


def test_text_from_records_never_becomes_markup() -> None:
    record = factory.record(
        verdict=Verdict.XFAIL,
        **dict.fromkeys(("title", "reason", "log", "stacks", "repeat", "stack", "integration", "remedy"), NASTY),
        suite="zero" + NASTY,
        rules=(RuleText(id="R" + NASTY, text=NASTY, source="javascript:alert(1)"),),
        known_issue=KnownIssueText(id=NASTY, title=NASTY, reference="javascript:alert(1)", explanation=NASTY),
        observations={NASTY: NASTY},
        numbers={NASTY: 1.0},
        provenance=factory.provenance(NASTY, packages={NASTY: NASTY}, ci_url="javascript:alert(1)"),
    )
    matrix = merge([record], [factory.header([NASTY], note=NASTY)], problems=[Problem(NASTY, NASTY)])
    files = html.render(matrix)
    page = Page(files["index.html"])
    assert sorted({tag for tag, _ in page.tags} & {"script", "img"}) == ["script"]
    assert set(page.scripts) == {"style", "data", "script"}
    assert not [a for _, a in page.tags if str(a.get("href")).startswith("javascript")]
    assert NASTY in page.words
    assert cells_of(files)["titles"][1] == NASTY
    assert opened(files, 1, 1)["cells"]["1"][0]["log"] == NASTY
    for name, text in files.items():
        assert name == "index.html" or "<" not in text
        assert name == "index.html" or re.fullmatch(r"data/[a-z0-9-]+\.[0-9a-f]{8}\.js", name)


def test_each_record_has_its_details(files: dict[str, str]) -> None:
    index, cells = indexed(files), cells_of(files)
    letters = {name: letter for letter, name, _ in index["verdicts"]}
    shown = {}
    for number, column in enumerate(index["columns"]):
        for cell, (id, suite, *_) in enumerate(cells["cells"]):
            if cells["columns"][number]["verdicts"][cell] in (letters["NO_DATA"], "."):
                continue
            shown[column["lane"], id] = opened(files, suite, number)["cells"][str(cell)][0]["repeat"]
    assert shown == {(record.lane, record.cell): record.repeat for record in factory.lanes()}


def test_links_lead_to_the_site_around_it() -> None:
    links = {"Guides": "../index.html", "Report an error": "https://example.org/issues/new?a=1&b=<2>"}
    page = Page(html.render(merge([factory.record()]), links=links)["index.html"])
    assert set(links.values()) <= {attributes.get("href") for tag, attributes in page.tags if tag == "a"}


def test_a_link_to_a_column_stays_when_the_commit_changes() -> None:
    once, again = (
        indexed(html.render(merge([factory.record(provenance=factory.provenance(git_commit=commit * 40))])))
        for commit in "ab"
    )
    assert once["columns"][0]["slug"] == again["columns"][0]["slug"] == "linux_gloo~gloo~stable~reference"


def test_the_letters_are_those_of_the_verdicts() -> None:
    assert set(pack.LETTERS) == set(Verdict)
    assert len(set(pack.LETTERS.values())) == len(pack.LETTERS)


def test_numbers_are_shown_against_their_tolerance() -> None:
    numbers = {"loss": float("nan"), "loss_tolerance": 1e-6, "time": 2.0, "odd_tolerance": 1.0}
    files = html.render(merge([factory.record(numbers=numbers)]))
    found = opened(files, 0, 0)["cells"]["0"][0]["numbers"]
    assert found == [["loss", "nan", 1e-06], ["time", 2.0, None], ["odd_tolerance", 1.0, None]]


def test_the_same_matrix_makes_the_same_page() -> None:
    once, again = (html.render(merge(factory.lane(), now=factory.STARTED)) for _ in range(2))
    assert once == again


def test_nothing_to_report_is_said() -> None:
    assert "Nothing ran." in Page(html.render(merge([]))["index.html"]).words
    words = Page(html.render(merge([], [factory.header(["zero/train[stage=1]"])]))["index.html"]).words
    assert "nothing ran" in words
    assert not re.search(r"\d of \d+ pass", words[: words.index("How to read this")])


def heavy() -> list[Record]:
    """Five lanes of a thousand cells, one in ten failing with a long log that compresses badly."""
    chance = random.Random(1)
    records = []
    for number, record in enumerate(factory.lanes(1000)):
        weights = {
            f"{layer}.weight": f"float32 array of shape (64, 64), sha256 {chance.getrandbits(48):012x}"
            for layer in range(30)
        }
        changes = {"observations": record.observations | {"weights": weights}}
        if number % 10 == 0:
            log = "\n".join(f"{chance.getrandbits(128):032x} step {step}" for step in range(380))
            changes |= {"verdict": Verdict.FAIL, "reason": f"loss {chance.random()}", "log": log}
        records.append(record.model_copy(update=changes))
    return records


def test_five_lanes_of_a_thousand_cells_stay_light() -> None:
    files = html.render(merge(heavy(), factory.headers(1000)))
    assert len(gzip.compress(files["index.html"].encode("utf-8"))) <= 150_000
    assert max(len(text) for name, text in files.items() if name.startswith("data/column-")) <= 1.1 * pack.BUDGET
    assert re.search(r"To keep this page light, [^<]+; the record files hold all of it\.", files["index.html"])


def test_a_long_text_keeps_its_ends() -> None:
    assert pack.cut("short", 10) == "short"
    cut = pack.cut("a" * 50 + "b" * 50, 20)
    assert cut.startswith("a" * 10 + "\n")
    assert cut.endswith("\n" + "b" * 10)
    assert "80 characters cut" in cut
