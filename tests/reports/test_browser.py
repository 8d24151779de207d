"""The page in a real browser: filter, drill-down, deep links, comparison, keyboard, dark, narrow, print, no script."""

from __future__ import annotations

import datetime
import os
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import reports
from conformance.model.verdict import Verdict
from reports.matrix import Matrix, Problem
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
    "#matrix",
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


class Tab:
    """One page, with whatever it complained about or asked the network for."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.url = url
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.complaints: list[str] = []
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
        self.page.wait_for_function("!document.documentElement.classList.contains('plain')")
        if fragment.startswith("#cell"):
            self.page.wait_for_selector(".view-cell h1")
        return self.page

    def fragment(self) -> str:
        return str(self.page.evaluate("decodeURIComponent(location.hash)"))


@pytest.fixture
def tab(browser: Any, page_url: str) -> Iterator[Tab]:
    tab = Tab(browser, page_url)
    yield tab
    tab.context.close()
    assert tab.complaints == []


def rows(page: Any) -> list[str]:
    return [" ".join(row.split()) for row in page.locator(".view-matrix tbody tr th").all_inner_texts()]


def test_the_first_screen_answers_without_scrolling(tab: Tab) -> None:
    page = tab.go()
    assert page.title() == "What works where · DeepSpeed conformance"
    assert page.evaluate("scrollY") == 0
    assert "No Windows machine has run" in page.locator(".grounds").inner_text()
    first = page.locator("table.answers tbody tr").first.bounding_box()
    assert first["y"] + first["height"] <= 800
    assert page.locator(".view:visible").count() == 1
    answers = page.locator("table.answers tbody tr", has_text="Resume with ZeRO 3").locator("td").all_inner_texts()
    told = [" ".join(answer.split()) for answer in answers]
    assert told == [*["works 2 of 2"] * 4, "broken 0 of 2 2 fail"]


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
    page.locator("tr.cell a.v-FAIL").first.click()
    page.wait_for_selector(".view-cell .t-FAIL")
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
    page.wait_for_selector(".view-matrix:visible")
    assert len(rows(page)) == 5 + 1 + 96
    assert "open=zero,zero/train" in tab.fragment()


def test_filters_narrow_the_rows_and_live_in_the_address(tab: Tab) -> None:
    page = tab.go("#matrix")
    page.get_by_label("Text").type("BF16 stage=3")
    assert page.get_by_role("status").inner_text() == "9 cells of 116"
    page.get_by_label("FAIL", exact=True).check()
    assert page.get_by_role("status").inner_text() == "4 cells of 116"
    assert len(rows(page)) == 1 + 1 + 4
    assert tab.fragment() == "#matrix?q=BF16+stage=3&verdict=FAIL"
    page.reload()
    assert page.get_by_role("status").inner_text() == "4 cells of 116"
    assert page.get_by_label("Text").input_value() == "BF16 stage=3"
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function("location.hash === '#matrix'")
    assert page.get_by_role("status").inner_text() == "116 cells"


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
    assert page.get_by_role("status").inner_text().startswith(f"{count} cell")
    if count == 0:
        assert "No cell is left" in page.locator(".view-matrix tbody").inner_text()


def test_following_the_page_s_own_links_changes_the_view(tab: Tab) -> None:
    page = tab.go()
    page.get_by_role("link", name="Train ZeRO 3, NVMe offload").click()
    page.wait_for_selector(".view-matrix:visible")
    assert page.get_by_role("status").inner_text() == "1 cell of 116"
    page.get_by_role("navigation").get_by_role("link", name="Rules").click()
    page.get_by_role("link", name="CKPT-07").click()
    assert page.get_by_role("status").inner_text() == "8 cells of 116"
    page.get_by_role("navigation").get_by_role("link", name="Summary").click()
    page.locator(".groups li", has_text="SIGSEGV").get_by_role("link").click()
    assert page.get_by_role("status").inner_text() == "1 cell of 116"


def test_an_integration_can_be_sent_as_an_address(tab: Tab) -> None:
    page = tab.go("#integration-reference")
    assert page.title() == "By integration · DeepSpeed conformance"
    assert 0 <= page.locator("#integration-reference").bounding_box()["y"] < 800
    page.get_by_role("navigation").get_by_role("link", name="Summary").click()
    page.get_by_role("navigation").get_by_role("link", name="Integrations").click()
    row = page.locator("table.integrations tbody tr", has_text="reference")
    assert row.get_by_role("cell").all_inner_texts() == ["422 of 437", "128", "15", "7"]
    page.locator(".view-integrations .handles a", has_text="checkpoint").click()
    assert page.get_by_role("status").inner_text() == "8 cells of 116"
    page.evaluate("location.hash = '#rule-CKPT-07'")
    page.wait_for_selector(".view-rules:visible")


def test_a_deep_link_shows_one_cell_with_stacks(tab: Tab) -> None:
    page = tab.go("#cell?" + urlencode({"id": HANGING, "at": WINDOWS_MPI}))
    words = page.locator(".view-cell").inner_text()
    assert "still running at its deadline" in words
    assert "Stacks at the deadline" in words
    assert "save_checkpoint" in words
    assert "timed out" in words
    assert "Earlier runs" in words
    page.locator(".across a", has_text="NCCL").click()
    page.wait_for_selector(".view-cell .t-PASS")


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
    page.wait_for_selector(".view-cell .told")
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
        "Single cells, filters and logs need JavaScript",
    ):
        assert page.get_by_text(words).first.is_visible()
    assert not page.locator(".filters").first.is_visible()
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

    page.get_by_label("Text").focus()
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
