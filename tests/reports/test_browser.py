"""The page in a real browser: filter, drill-down, deep links, comparison, keyboard, dark, narrow, print, no script."""

from __future__ import annotations

import dataclasses
import datetime
import gzip
import os
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import ANY
from urllib.parse import urlencode

import pytest

import reports
from conformance.model.record import KnownIssueText
from conformance.model.verdict import Verdict
from reports.formats import html
from reports.matrix import Matrix, Problem
from reports.writing import write_text
from tests.reports import factory

playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
BROWSER = next((path for name in NAMES if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"no browser found on PATH ({', '.join(NAMES)})")

AXE = Path(os.environ.get("AXE_CORE", Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"))

FAILING = "zero/train[stage=3,dtype=fp32,world=2,accumulation=1,clipping=on]"
HANGING = "checkpoint/resume[stage=3,dtype=bf16]"
GLOO = "linux_gloo~gloo~stable~reference"
WINDOWS_GLOO = "windows_gloo~gloo~stable~reference~wine"
WINDOWS_MPI = "windows_mpi~mpi~stable~reference~wine"
VIEWS = (
    "#summary",
    "#matrix?open=zero,zero/train",
    "#issues",
    "#compare",
    "#integrations",
    "#rules",
    "#reading",
    "#cell?" + urlencode({"id": FAILING, "at": WINDOWS_GLOO}),
)


def matrix(size: int | None = None) -> Matrix:
    records = [
        *factory.lanes(size),
        factory.record(factory.cell_ids()[0], Verdict.FAIL, provenance=factory.provenance("again")),
    ]
    return reports.merge(records, factory.headers(size), problems=[Problem("old.jsonl, line 3", "not JSON")])


def issue(id: str, title: str) -> KnownIssueText:
    return KnownIssueText(id=id, title=title, reference="https://example.org/1", explanation="Why it fails.")


OWN = issue("lightning-mixed-precision-casts-targets", "Rounds the targets")
DEEPSPEEDS = issue("zero1-and-2-gather-into-a-buffer-with-gradients", "Fails in the first step")
ADAM = "offload/train[stage=3,optimizer=cpu,adam=deepspeed]"


def published() -> Matrix:
    """What a published report is like: no GPU, Windows under Wine, several releases of DeepSpeed, a trainer."""
    records, headers = [], []

    def column(lane: str, cells: Sequence[str], **changes: Any) -> None:
        run = f"run-{len(headers)}"
        launcher, transport, host, _ = factory.LANES[lane]
        packages = factory.PACKAGES | changes.pop("packages", {})
        failing = changes.pop("failing", {})
        where = factory.provenance(run, host, packages=packages)
        told = {"lane": lane, "launcher": launcher, "transport": transport, "provenance": where} | changes
        for cell in cells:
            records.append(factory.record(cell, **(told | failing.get(cell, {}))))
        header = {name: told[name] for name in ("lane", "launcher", "transport", "provenance")}
        header |= {name: changes[name] for name in ("stack", "integration") if name in changes}
        headers.append(factory.header(cells, run=run, **header))

    ids = [*factory.cell_ids(), ADAM]
    few = ["zero/train[stage=2,dtype=fp32,world=2,accumulation=2,clipping=on]", "initialize/args_omitted"]
    lacking = {
        ADAM: {
            "verdict": Verdict.NOT_RUN,
            "reason": "needs DeepSpeed's op async_io",
            "remedy": "apt-get install libaio-dev, then build it ahead: python -m nox -s ops",
        }
    }
    known = {"verdict": Verdict.XFAIL, "reason": "a view was modified in place", "known_issue": DEEPSPEEDS}
    for lane in ("linux_gloo", "linux_mpi"):
        column(lane, ids, stack="pinned")
    for lane in ("windows_gloo", "windows_mpi"):
        column(lane, ids, stack="pinned", failing=lacking)
    for version, failing in (("0.16.9", {}), ("0.17.6", {}), ("0.18.9", {few[0]: known})):
        column("linux_gloo", few, stack=f"deepspeed-{version[:4]}", packages={"deepspeed": version}, failing=failing)
    own = {few[1]: known | {"known_issue": OWN}}
    for lane in ("linux_gloo", "linux_mpi", "windows_gloo"):
        column(lane, few, stack="pinned", integration="lightning", failing=own | {few[0]: known})
    return reports.merge(records, headers)


@pytest.fixture(scope="module")
def page_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("größe report")
    earlier = [
        record if record.cell != HANGING else record.model_copy(update={"verdict": Verdict.PASS})
        for name in factory.LANES
        for record in factory.lane(name, run=f"{name}-0", started=factory.STARTED - datetime.timedelta(days=1), seed=2)
    ]
    history = reports.past_of(reports.merge(earlier))
    return reports.write_matrix(matrix(), folder, history=history)["index.html"].as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    flags = [
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        *(["--no-sandbox"] if as_root else []),
    ]
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def published_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("published")
    return reports.write_matrix(published(), folder, links={"Guides": "../index.html"})["index.html"].as_uri()


def until(page: Any, condition: str) -> None:
    """Wait for a condition. Asked from outside: the page's policy lets nothing be evaluated within it."""
    end = time.monotonic() + 60
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"never came: {condition}"
        time.sleep(0.02)


class Tab:
    """One page, with whatever it complained about or asked the network for."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.url = url
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.complaints: list[str] = []
        self.clicks = 0
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console", lambda message: self.complaints.append(message.text) if message.type == "error" else None
        )
        self.page.on(
            "request", lambda request: self.complaints.append(request.url) if request.url[:5] != "file:" else None
        )

    def go(self, fragment: str = "") -> Any:
        """Open a view afresh and wait until it is there."""
        self.page.goto("about:blank")
        self.page.goto(self.url + fragment)
        self.settled()
        return self.page

    def settled(self) -> None:
        """Wait until what the address names is shown."""
        until(self.page, "document.documentElement.dataset.shown === location.hash")

    def fragment(self) -> str:
        return str(self.page.evaluate("decodeURIComponent(location.hash)"))

    def click(self, locator: Any) -> Any:
        """Click, counted, and wait until what the address then names is shown."""
        locator.click()
        self.clicks += 1
        self.settled()
        return self.page


@pytest.fixture
def tab(browser: Any, page_url: str) -> Iterator[Tab]:
    tab = Tab(browser, page_url)
    yield tab
    tab.context.close()
    assert tab.complaints == []


@pytest.fixture
def reader(browser: Any, published_url: str) -> Iterator[Tab]:
    tab = Tab(browser, published_url)
    yield tab
    tab.context.close()
    assert tab.complaints == []


def rows(page: Any) -> list[str]:
    return [" ".join(row.split()) for row in page.locator(".view-matrix tbody tr th").all_inner_texts()]


def words_of(locator: Any) -> str:
    return " ".join(locator.inner_text().split())


def answer_in(page: Any, row: str, column: str) -> Any:
    """The cell of the summary's table where a row and a column meet."""
    heads = [words_of(head) for head in page.locator(".chosen-answers thead th").all()]
    (number,) = [number for number, head in enumerate(heads) if head == column or head == f"{column} partial run"]
    return page.locator(".chosen-answers tbody tr", has_text=row).locator("th, td").nth(number)


def found(page: Any) -> str:
    """How many cells the matrix says that it shows."""
    return str(page.locator(".view-matrix [role=status]").inner_text())


def test_the_first_screen_answers(tab: Tab) -> None:
    page = tab.go()
    assert page.title() == "What works where · DeepSpeed conformance"
    assert page.evaluate("scrollY") == 0
    assert "No Windows machine has run" in page.locator(".grounds").inner_text()
    trains = page.locator(".chosen-answers tbody tr", has_text="Train with ZeRO 3").bounding_box()
    assert trains["y"] + trains["height"] <= 800
    last = page.locator(".chosen-answers tbody:not(.suites) tr").last.bounding_box()
    assert last["y"] + last["height"] <= 1120
    assert page.locator(".view:visible").count() == 1
    answers = page.locator(".chosen-answers tbody tr", has_text="Resume with ZeRO 3").locator("td").all()
    told = [words_of(answer) for answer in answers]
    assert told == [*["works 2 of 2"] * 4, "broken 0 of 2 2 fail"]


# The ways of three readers: each finds the answer within three clicks.


def test_someone_on_windows_finds_whether_offload_works_and_what_to_do_instead(reader: Tab) -> None:
    page = reader.go()
    grounds = words_of(page.locator(".grounds"))
    assert "No GPU has run" in grounds
    assert "No Windows machine has run" in grounds
    assert "Never run here: linux_nccl" in grounds
    column = "Windows · CPU, under Wine"
    answer = answer_in(page, "Train ZeRO 3, CPU offload", column)
    assert words_of(answer) == "partly tested 1 of 2 1 not tested: needs DeepSpeed's op async_io; CPU to CPU"
    facts = page.locator(".chosen-answers .about td", has_text="windows_gloo").first
    for told in ("CPU", "Wine 8.0, not Windows itself", "deepspeed 0.19.8"):
        assert told in words_of(facts)
    reader.click(answer.get_by_role("link"))
    assert page.locator(".view-matrix thead th").count() == 2
    assert "needs DeepSpeed's op async_io" in words_of(page.locator(".view-matrix tbody"))
    reader.click(page.locator(".view-matrix a.v-NOT_RUN"))
    told = words_of(page.locator(".view-cell"))
    assert "Remedy: run it on a Linux lane: Windows has no such op" in told
    assert "apt-get" not in told
    assert "under Wine 8.0, which is not Windows itself" in told
    assert reader.clicks <= 3


def test_a_maintainer_of_deepspeed_finds_what_broke_between_two_releases(reader: Tab) -> None:
    page = reader.go()
    step = page.locator(".steps li", has_text="0.17.6 → 0.18.9")
    assert words_of(step).startswith("1 cell worse 0.17.6 → 0.18.9: Fails in the first step")
    reader.click(step.get_by_role("link", name="Compare 0.17.6 with 0.18.9"))
    changes = page.locator(".changes")
    assert words_of(changes).startswith(
        "Of the 2 cells that both have, 2 pass before and 1 after. Worse 1 cell 1 cell: Fails"
    )
    reader.click(changes.get_by_role("link"))
    told = words_of(page.locator(".view-cell"))
    assert "DeepSpeed: works with 0.16.9 and 0.17.6, fails with 0.18.9, works with 0.19.8." in told
    assert "[object" not in told
    assert reader.clicks <= 3


def test_a_maintainer_of_lightning_finds_which_failures_are_his(reader: Tab) -> None:
    page = reader.go()
    reader.click(page.get_by_role("navigation").get_by_role("link", name="Integrations"))
    reader.click(page.locator("table.integrations").get_by_role("link", name="Lightning"))
    mine = page.locator(".integration", has=page.locator("#integration-lightning"))
    assert "Of 6 failing results, 3 are Lightning's, 3 are DeepSpeed's." in words_of(mine)
    # Its own first, though DeepSpeed's are as many.
    assert words_of(mine.locator(".groups li").first).startswith('3 precision="bf16-mixed" rounds the targets')
    assert "python -m nox -s linux_gloo -- --integration lightning" in words_of(mine)
    assert reader.clicks <= 3


# Columns


def heads(page: Any, view: str) -> list[str]:
    return [words_of(head) for head in page.locator(f"{view} thead th").all()[1:]]


def test_three_to_five_columns_are_shown_and_others_are_chosen_by_facets(reader: Tab) -> None:
    page = reader.go()
    assert heads(page, ".chosen-answers") == [
        "Linux · CPU",
        "Linux · mpiexec · CPU",
        "Windows · CPU, under Wine",
        "Windows · mpiexec · MPI transport · CPU, under Wine",
        "Linux · NCCL · GPU",
    ]
    assert words_of(answer_in(page, "Train with ZeRO 2", "Linux · NCCL · GPU")) == "never run"
    page.locator(".chooser summary").click()
    disabled = page.locator(".chooser option[disabled]").all_inner_texts()
    assert disabled == ["linux_nccl: never run", "GPU: never run"]
    page.locator(".chooser [name=integration]").select_option(label="Lightning")
    assert len(heads(page, ".chosen-answers")) == 3
    assert reader.fragment() == "#summary?integration=lightning"
    page.locator(".chooser [name=lane]").select_option(label="linux_mpi")
    assert heads(page, ".chosen-answers") == ["Linux · mpiexec · CPU · Lightning"]
    page.reload()
    reader.settled()
    assert heads(page, ".chosen-answers") == ["Linux · mpiexec · CPU · Lightning"]
    reader.click(page.get_by_role("navigation").get_by_role("link", name="Matrix"))
    assert [head.split(" CPU, DeepSpeed")[0] for head in heads(page, ".view-matrix")] == [
        "Linux · mpiexec · CPU · Lightning"
    ]
    page.locator(".chooser summary").click()
    page.locator(".chooser").get_by_role("button", name="Clear").click()
    until(page, "location.hash === '#matrix'")
    assert len(heads(page, ".view-matrix")) == 4


def test_what_columns_share_is_counted_on_shared_cells(reader: Tab) -> None:
    page = reader.go("#summary?at=linux_gloo~gloo~pinned~reference,linux_gloo~gloo~deepspeed-0.18~reference")
    page.wait_for_selector(".shared:visible")
    told = words_of(page.locator(".shared"))
    assert (
        told == "Of the 2 cells that these 2 columns share, pass: 2 (Linux · CPU), 1 (Linux · CPU · DeepSpeed 0.18.9)."
    )
    assert words_of(answer_in(page, "Train with ZeRO 2", "Linux · CPU · DeepSpeed 0.18.9")).startswith("broken 0 of")


@pytest.mark.parametrize("width", [1280, 1920])
def test_heads_stay_in_sight_both_ways(reader: Tab, width: int) -> None:
    page = reader.page
    page.set_viewport_size({"width": width, "height": 700})
    reader.go("#matrix?open=zero,zero/train")
    page.evaluate("scrollTo(0, 1500)")
    assert page.locator(".view-matrix thead th").first.bounding_box()["y"] == 0
    page.locator(".chooser summary").click()
    while page.locator(".picks input:not(:checked)").count():
        page.locator(".picks input:not(:checked)").first.click()
    assert len(heads(page, ".view-matrix")) == len(published().columns)
    page.locator(".view-matrix .scroll").evaluate("box => box.scrollTo(600, 900)")
    box = page.locator(".view-matrix .scroll").bounding_box()
    assert page.locator(".view-matrix thead th").first.bounding_box()["y"] == pytest.approx(box["y"], abs=1)
    assert page.locator(".view-matrix tbody tr:nth-child(30) th").bounding_box()["x"] == pytest.approx(box["x"], abs=21)


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_shows_one_column_at_a_time(browser: Any, published_url: str, width: int) -> None:
    tab = Tab(browser, published_url, viewport={"width": width, "height": 800})
    page = tab.go()
    assert heads(page, ".chosen-answers") == ["Linux · CPU"]
    page.get_by_role("button", name="Next column").click()
    assert heads(page, ".chosen-answers") == ["Linux · mpiexec · CPU"]
    page.locator("select[name=one]").select_option(label="3 of 4: Windows · CPU, under Wine")
    assert words_of(answer_in(page, "Train ZeRO 3, CPU offload", "Windows · CPU, under Wine")).startswith(
        "partly tested"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tab.click(page.get_by_role("navigation").get_by_role("link", name="Matrix"))
    assert len(heads(page, ".view-matrix")) == 1
    assert tab.complaints == []
    tab.context.close()


def test_paper_shows_all_columns(reader: Tab) -> None:
    page = reader.go()
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 1030, "height": 700})
    shown = page.locator("thead th .lane:visible").all_inner_texts()
    assert sorted(shown) == sorted([*(column.label for column in published().columns), "Linux · NCCL · GPU"])
    for table in page.locator(".all-answers table").all():
        assert table.bounding_box()["width"] <= 1030
    assert page.pdf(prefer_css_page_size=True)[:5] == b"%PDF-"


# Links


@pytest.mark.parametrize(
    ("fragment", "view", "says"),
    [
        (f"#matrix?at={GLOO}~5f3c9f0c1d", "matrix", ""),
        (
            f"#matrix?at={GLOO}~0123456789",
            "matrix",
            "The link is of a run with commit 0123456789, which is not in this",
        ),
        (f"#cell?id={FAILING}&at={GLOO}~0123456789", "cell", "Shown is Linux · CPU with commit 5f3c9f0c1d"),
        (
            "#matrix?at=linux_gloo~gloo~next~reference",
            "matrix",
            "This report has no column linux_gloo~gloo~next~reference",
        ),
        ("#summary?stack=next", "summary", "This report has no column with stack next"),
        ("#matrix?rule=NO-01", "matrix", "This report has no rule NO-01; that filter is left out"),
        (f"#cell?id={FAILING}&at={GLOO}&run=linux_gloo-1", "cell", ""),
        (
            f"#cell?id={FAILING}&at={GLOO}&run=gone",
            "cell",
            "Run gone is not in this report. Shown is the newest run of",
        ),
        (
            f"#cell?id={FAILING}&at=windows_hpc~x",
            "cell",
            "This report has no column windows_hpc~x. Shown is Linux · CPU",
        ),
        ("#compare?a=nowhere", "compare", "This report has no column nowhere"),
        ("#an-issue-that-was-mended", "summary", "Nothing in this report is called an-issue-that-was-mended"),
        ("#nvme-fp32", "issues", ""),
        ("#issues?fault=mpi", "issues", "No known issue here has fault mpi"),
    ],
)
def test_a_stale_link_says_so(tab: Tab, fragment: str, view: str, says: str) -> None:
    page = tab.go(fragment)
    assert page.locator(f".view-{view}").is_visible()
    assert page.locator(".view:visible").count() == 1
    told = page.locator(".stale")
    assert told.is_visible() == bool(says)
    assert says in (words_of(told) if says else "")


def test_a_cell_has_an_address_that_lasts_and_one_of_its_run(tab: Tab) -> None:
    page = tab.go(f"#cell?id={FAILING}&at={GLOO}")
    lasting, run = (link.get_attribute("href") for link in page.locator(".addresses a").all())
    assert "5f3c9f0" not in lasting
    assert f"at={GLOO}" in lasting
    assert "run=" not in lasting
    assert "run=" in run


def test_known_issues_are_filtered_by_fault_and_have_their_ids_as_anchors(reader: Tab) -> None:
    page = reader.go()
    reader.click(page.get_by_role("link", name="are Lightning's"))
    assert words_of(page.locator(".view-issues [role=status]")) == "1 known issue of 2"
    page.locator(".view-issues [name=fault]").select_option("deepspeed")
    assert reader.fragment() == "#issues?fault=deepspeed"
    reader.go("#" + OWN.id)
    assert page.locator(f"[id={OWN.id}] details").get_attribute("open") is not None
    reader.click(page.locator(f"[id={OWN.id}]").get_by_role("link", name="Show the cells"))
    assert page.locator(".view-matrix a.v-XFAIL").count() == 3
    assert words_of(page.get_by_role("status").and_(page.locator(":visible"))).startswith("1 cell of")


# Weight


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 columns of 3,000 cells, with earlier runs."""
    ids = factory.cell_ids(3000)
    records, headers, history = [], [], []
    verdicts = [*[Verdict.PASS] * 20, Verdict.XFAIL, Verdict.UNSUPPORTED, Verdict.NOT_RUN]
    parsed = [factory.record(cell) for cell in ids]
    for number in range(24):
        where = factory.provenance(f"run-{number}")
        told = {"stack": f"stack-{number:02}", "provenance": where, "known_issue": None}
        for place, one in enumerate(parsed):
            verdict = verdicts[(place * 7 + number) % len(verdicts)]
            failed = {"known_issue": DEEPSPEEDS} if verdict is Verdict.XFAIL else {}
            reason = "" if verdict is Verdict.PASS else f"found 0.52 of cell {place % 50}"
            records.append(one.model_copy(update=told | failed | {"verdict": verdict, "reason": reason}))
        headers.append(factory.header(ids, run=f"run-{number}", stack=f"stack-{number:02}", provenance=where))
    matrix = reports.merge(records, headers)
    for past in reports.past_of(matrix):
        history += [dataclasses.replace(past, started=f"2026-02-{day:02}T00:00:00+00:00") for day in range(1, 6)]
    folder = tmp_path_factory.mktemp("large")
    for name, text in html.render(matrix, history).items():
        write_text(folder / name, text)
    return folder


def test_a_large_report_is_usable_within_3_seconds_on_a_slow_line_and_phone(browser: Any, large: Path) -> None:
    """1.6 Mbit/s with 150 ms to the server, and a processor that takes four times as long as this one.

    Added up from bytes and from the page's own thread time, so that whatever else the machine does counts for nothing.
    """
    tab = Tab(browser, "about:blank", viewport={"width": 390, "height": 844})
    tools = tab.context.new_cdp_session(tab.page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    tab.page.goto((large / "index.html").as_uri())
    tab.settled()
    busy = next(
        each["value"] for each in tools.send("Performance.getMetrics")["metrics"] if each["name"] == "TaskDuration"
    )
    assert tab.page.locator(".chosen-answers").is_visible()
    tab.page.get_by_role("button", name="Next column").click()
    size = len(gzip.compress((large / "index.html").read_bytes()))
    assert size <= 150_000
    assert 2 * 0.15 + size * 8 / 1.6e6 + 4 * busy <= 3, (size, busy)
    tab.context.close()


def test_a_large_report_works_from_its_folder(browser: Any, large: Path) -> None:
    tab = Tab(browser, (large / "index.html").as_uri())
    page = tab.go("#matrix?open=zero,zero/train")
    assert words_of(page.locator(".view-matrix [role=status]")) == "3,000 cells"
    tab.click(page.locator(".view-matrix tr.cell a.v").first)
    assert "Repeat" in words_of(page.locator(".view-cell"))
    assert tab.complaints == []
    tab.context.close()


def test_a_file_that_is_not_there_is_told(browser: Any, tmp_path: Path) -> None:
    index = reports.write_matrix(matrix(), tmp_path)["index.html"]
    for file in (tmp_path / "data").iterdir():
        file.unlink()
    tab = Tab(browser, index.as_uri())
    page = tab.go("#matrix")
    assert "Keep the folder data beside index.html" in words_of(page.locator(".stale"))
    tab.context.close()


def test_drilling_down_from_suite_to_cell_and_back(tab: Tab) -> None:
    page = tab.go("#matrix")
    assert rows(page) == [
        "initialize 6 cells",
        "launch 2 cells",
        "zero 96 cells",
        "checkpoint 8 cells",
        "offload 4 cells",
    ]
    page.get_by_role("button", name="zero 96 cells").click()
    page.get_by_role("button", name="train 96 cells").click()
    assert len(rows(page)) == 5 + 1 + 80 + 1
    page.get_by_role("button", name="show 16 more cells").click()
    assert len(rows(page)) == 5 + 1 + 96
    tab.click(page.locator("tr.cell a.v-FAIL").first)
    assert page.locator(".view-cell h1").inner_text() == "Training follows the reference trajectory"
    words = page.locator(".view-cell").inner_text()
    for expected in (
        "loss at step 3",
        "beyond",
        "ZERO-01",
        "torch",
        "2.13.0+cpu",
        "nox -s windows_gloo -- --cell",
        "Wine 8.0",
    ):
        assert expected in words
    page.go_back()
    tab.settled()
    assert len(rows(page)) == 5 + 1 + 96
    assert "open=zero,zero/train" in tab.fragment()


def test_filters_narrow_the_rows_and_live_in_the_address(tab: Tab) -> None:
    page = tab.go("#matrix")
    page.locator(".view-matrix").get_by_label("Text").type("BF16 stage=3")
    assert found(page) == "10 cells of 116"
    page.get_by_label("FAIL", exact=True).check()
    assert found(page) == "4 cells of 116"
    assert len(rows(page)) == 1 + 1 + 4
    assert tab.fragment() == "#matrix?q=BF16+stage=3&verdict=FAIL"
    page.reload()
    tab.settled()
    assert found(page) == "4 cells of 116"
    assert page.locator(".view-matrix").get_by_label("Text").input_value() == "BF16 stage=3"
    page.locator(".found").get_by_role("button", name="Clear").locator("visible=true").click()
    until(page, "location.hash === '#matrix'")
    assert found(page) == "116 cells"


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("suite=checkpoint", 8),
        ("rule=OFF-03", 4),
        ("feature=zero-3", 24),
        ("verdict=NOT_RUN", 2),
        ("verdict=FAIL,TIMEOUT", 11),
        (f"verdict=FAIL&at={GLOO}", 1),
        ("q=sigsegv", 1),
        ("q=nothing+has+this", 0),
    ],
)
def test_a_filter_can_be_sent_as_an_address(tab: Tab, query: str, count: int) -> None:
    page = tab.go(f"#matrix?{query}")
    assert found(page).startswith(f"{count} cell")
    if count == 0:
        assert "No cell is left" in page.locator(".view-matrix tbody").inner_text()


def test_following_the_page_s_own_links_changes_the_view(tab: Tab) -> None:
    page = tab.go()
    tab.click(page.get_by_role("link", name="Train ZeRO 3, NVMe offload"))
    assert found(page) == "1 cell of 116"
    tab.click(page.get_by_role("navigation").get_by_role("link", name="Rules"))
    tab.click(page.get_by_role("link", name="CKPT-07"))
    assert found(page) == "8 cells of 116"
    tab.click(page.get_by_role("navigation").get_by_role("link", name="Summary"))
    tab.click(page.locator(".groups li", has_text="SIGSEGV").get_by_role("link"))
    assert found(page) == "1 cell of 116"


def test_an_integration_can_be_sent_as_an_address(tab: Tab) -> None:
    page = tab.go("#integration-reference")
    assert page.title() == "By integration · DeepSpeed conformance"
    assert 0 <= page.locator("#integration-reference").bounding_box()["y"] < 800
    tab.click(page.get_by_role("navigation").get_by_role("link", name="Summary"))
    tab.click(page.get_by_role("navigation").get_by_role("link", name="Integrations"))
    row = page.locator("table.integrations tbody tr", has_text="reference")
    assert row.get_by_role("cell").all_inner_texts() == ["422 of 437", "128", "15", "7", ANY]
    tab.click(page.locator(".view-integrations .handles a", has_text="checkpoint"))
    assert found(page) == "8 cells of 116"
    page.evaluate("location.hash = '#rule-CKPT-07'")
    tab.settled()
    assert 0 <= page.locator("#rule-CKPT-07").bounding_box()["y"] < 800


def test_a_deep_link_shows_one_cell_with_stacks(tab: Tab) -> None:
    page = tab.go("#cell?" + urlencode({"id": HANGING, "at": WINDOWS_MPI}))
    words = page.locator(".view-cell").inner_text()
    assert "still running at its deadline" in words
    assert "Stacks at the deadline" in words
    assert "save_checkpoint" in words
    assert "timed out" in words
    assert "Earlier runs" in words
    tab.click(page.locator(".across a", has_text="NCCL"))
    assert page.locator(".view-cell .t-PASS").is_visible()


@pytest.mark.parametrize(
    ("cell", "at", "expected"),
    [
        ("offload/train[stage=3,optimizer=nvme]", GLOO, "fp32 parameters on NVMe are stored as bf16"),
        ("offload/train[stage=3,optimizer=nvme]", WINDOWS_GLOO, "Remedy: run the NVMe cells on a Linux lane"),
        ("launch/mpiexec[world=2]", WINDOWS_MPI, "never reported: run windows_mpi-1 was interrupted"),
        ("launch/mpiexec[world=2]", GLOO, "not in the plan of this lane's runs"),
        ("initialize/args_omitted", GLOO, "Records disagree: FAIL, PASS"),
        ("no/such[cell]", GLOO, "No such cell"),
    ],
)
def test_a_cell_tells_what_there_is_to_tell(tab: Tab, cell: str, at: str, expected: str) -> None:
    page = tab.go("#cell?" + urlencode({"id": cell, "at": at}))
    assert expected in " ".join(page.locator(".view-cell").inner_text().split())


def test_markup_in_a_log_is_shown_as_text(tab: Tab) -> None:
    page = tab.go("#cell?" + urlencode({"id": FAILING, "at": WINDOWS_GLOO}))
    log = page.get_by_label("Log", exact=True).inner_text()
    assert "</script><script>window.pwned = 1</script><!--" in log
    assert "{{ 7 * 7 }} & <b>bold</b>" in log
    assert page.evaluate("window.pwned") is None
    assert page.locator(".view-cell b").count() == 0


def test_two_runs_of_a_lane_can_be_compared(tab: Tab) -> None:
    page = tab.go("#compare?" + urlencode({"a": f"{WINDOWS_MPI}@2026-02-28T02:00:00+00:00", "b": WINDOWS_MPI}))
    changes = page.locator(".changes").inner_text()
    assert changes.startswith("Of the 114 cells that both have, 79 pass before and 78 after.")
    assert HANGING in changes
    assert page.locator(".changes h2").all_inner_texts() == ["Worse\n1 cell", "New\n2 cells"]
    page.locator("select[name=a]").select_option(label="Linux · CPU")
    page.locator("select[name=b]").select_option(label="Linux · CPU")
    assert page.locator(".changes").inner_text() == "Choose two that differ."


def test_the_keyboard_reaches_everything(tab: Tab) -> None:
    page = tab.go("#matrix?suite=checkpoint&q=stage%3D3")
    page.locator(".view-matrix tbody button").first.focus()
    focused = "document.activeElement.innerText.trim()"
    page.keyboard.press("ArrowLeft")
    assert rows(page) == ["checkpoint 2 cells"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == "stage=3 dtype=fp32"
    page.keyboard.press("Enter")
    tab.settled()
    assert page.evaluate("document.activeElement.tagName") == "H1"
    assert page.evaluate(focused) == "A resumed run goes on bit for bit from a different seed"


def test_the_skip_link_skips_the_navigation(tab: Tab) -> None:
    page = tab.go()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.locator(".view-summary").is_visible()


def brightness(page: Any) -> float:
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return sum(int(part) for part in colour[4:-1].split(",")) / 3


def test_dark_is_dark_and_print_is_light(browser: Any, page_url: str) -> None:
    tab = Tab(browser, page_url, color_scheme="dark")
    page = tab.go()
    assert brightness(page) < 60
    page.emulate_media(media="print", color_scheme="dark")
    assert brightness(page) > 200
    assert not page.get_by_role("navigation").is_visible()
    tab.context.close()


@pytest.mark.parametrize("fragment", VIEWS)
def test_a_narrow_screen_needs_no_sideways_scrolling_of_the_page(browser: Any, page_url: str, fragment: str) -> None:
    tab = Tab(browser, page_url, viewport={"width": 320, "height": 640})
    page = tab.go(fragment)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    tab.context.close()


def test_without_javascript_the_summary_can_be_read(browser: Any, page_url: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_url)
    for words in (
        "What works where",
        "Needs a look",
        "rank 1 died: SIGSEGV",
        "96 cells",
        "fp32 parameters on NVMe are stored as bf16",
        "By integration",
        "Linux · NCCL · GPU",
    ):
        assert page.get_by_text(words).locator("visible=true").count() > 0, words
    assert page.locator(".filters, .chooser").locator("visible=true").count() == 0
    assert page.get_by_role("link", name="Compare").count() == 0
    context.close()


def test_verdicts_differ_by_shape_and_word_too(tab: Tab) -> None:
    page = tab.go("#reading")
    shapes = page.evaluate("""() => [...document.querySelectorAll(".view-reading .v")].map((verdict) => {
        const symbol = verdict.querySelector("use").getAttribute("href");
        return [verdict.innerText.trim(), document.querySelector(symbol).innerHTML];
    })""")
    assert {name for name, _ in shapes} == set(Verdict)
    assert len({shape for _, shape in shapes}) == len(Verdict)


def test_a_keystroke_costs_less_than_100_ms(browser: Any, tmp_path: Path) -> None:
    tab = Tab(browser, reports.write_matrix(matrix(1000), tmp_path)["index.html"].as_uri())
    page = tab.go("#matrix?open=zero,zero/train,collectives,collectives/all_reduce,collectives/all_gather")
    tools = tab.context.new_cdp_session(page)
    # Thread time, so that whatever else the machine does counts for nothing.
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = {each["name"]: each["value"] for each in tools.send("Performance.getMetrics")["metrics"]}
        return float(metrics["TaskDuration"])

    page.locator(".view-matrix").get_by_label("Text").focus()
    costs = []
    for key in "stage=3 bf":
        before = spent()
        page.keyboard.press("Space" if key == " " else key)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        costs.append(spent() - before)
    tab.context.close()
    assert statistics.median(costs) <= 0.1, costs


@pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: npm install axe-core, or name its axe.min.js in AXE_CORE")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 320])
@pytest.mark.parametrize("fragment", VIEWS)
def test_axe_finds_nothing(browser: Any, page_url: str, fragment: str, width: int, scheme: str) -> None:
    tab = Tab(browser, page_url, viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = tab.go(fragment)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("(tags) => axe.run(document, { runOnly: tags })", tags)
    tab.context.close()
    told = [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
    assert told == []
