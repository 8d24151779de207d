"""The page of a lane: what it is, how to run it, and what its published runs came to."""

from __future__ import annotations

from typing import Final

from conformance.matrix.lane import Lane
from docs.markdown import block, code, table, text
from docs.page import Page, shortened
from docs.pages import feature, ground
from docs.pages.count import HEAD, counts
from docs.pages.words import day, version, where
from docs.published import Published
from reports import places
from reports.answers import answer
from reports.matrix import Column

_LAUNCHERS: Final = {
    "env": "variables that a launcher sets (`RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR`, `MASTER_PORT`)",
    "mpi": "mpiexec; the ranks learn from MPI who they are",
}
_DEVICES: Final = {"cpu": "CPU", "cuda": "NVIDIA GPUs, one a rank", "auto": "a GPU where there is one, else the CPU"}


def path(lane: str) -> str:
    """Where the page is, below the site's root and without a suffix."""
    return f"lanes/{lane}"


def pages(published: Published) -> list[Page]:
    """A page a lane."""
    return [_page(published, lane) for lane in published.contract.lanes.values()]


def _page(published: Published, lane: Lane) -> Page:
    held = [column for column in published.results.columns if column.key.lane == lane.name]
    parts = [
        "[All lanes](../reference/lanes.md)",
        _what(lane),
        "## Published runs",
        _runs(published, held) if held else _never(published, lane),
        _answers(published, held),
        "## Run it",
        block(f"python -m nox -s {lane.name} -- --profile smoke", "sh"),
        "takes a representative part; without the options it runs everything. Under Wine on Linux: "
        f"`python -m nox -s wine -- {lane.name}`, see [Windows](../windows.md)."
        if lane.os == "windows"
        else "takes a representative part; without the options it runs everything.",
    ]
    title = f"{lane.name}: {lane.title}"
    ran = f"{len(held)} published runs" if held else "No published run yet"
    return Page(
        path(lane.name), title, shortened(f"DeepSpeed on {lane.title}. {ran}: what works, what does not."), _join(parts)
    )


def _join(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _what(lane: Lane) -> str:
    needs = ", ".join(map(code, lane.needs)) or "nothing but its system"
    return "\n".join(
        [
            f"- System: {'Windows' if lane.os == 'windows' else 'Linux'}",
            f"- Ranks are started by {_LAUNCHERS[lane.launcher]}",
            f"- Collectives travel over {' or '.join(map(code, lane.transports))}",
            f"- Computes on: {_DEVICES[lane.device]}",
            f"- Needs: {needs}",
        ]
    )


def _never(published: Published, lane: Lane) -> str:
    what = " No GPU has run anything that is published here." if ground.no_gpu(published) else ""
    what = what if lane.device == "cuda" else ""
    return f"This lane was **never run** for publication: nothing here says whether DeepSpeed works on it.{what}"


def _runs(published: Published, held: list[Column]) -> str:
    rows = [
        (
            text(where(column)),
            code(column.key.integration),
            code(column.key.stack),
            version(column),
            version(column, "torch"),
            day(column),
            *counts(published.results.tally(column)),
        )
        for column in held
    ]
    wine = any(column.key.wine for column in held)
    note = "**These runs were made under Wine on Linux, not on Windows.** " if wine else ""
    note += "All computed on a CPU." if all(map(places.on_cpu, held)) else ""
    head = ("where", "driven by", "stack", "DeepSpeed", "torch", "day", *HEAD)
    return f"{note}\n\n{table(head, rows, markdown=(0, 1, 2))}"


def _answers(published: Published, held: list[Column]) -> str:
    first = next((column for column in held if (column.key.stack, column.key.integration) == feature.FIRST), None)
    if first is None:
        return ""
    rows = []
    for headline in feature.headlines():
        answered = answer(published.results, first, headline.chosen(published.results))
        rest = "; ".join(filter(None, (headline.caveat(first), answered.catch, answered.untested, answered.refused)))
        link = f"[{text(headline.title)}](../{feature.path(headline)}.md)"
        rows.append((link, answered.answer.value, answered.share, rest))
    head = ("feature", "answer", "passes", "what does not")
    told = f"{where(first)}, DeepSpeed {version(first)}, driven by the reference integration:"
    return f"## What works\n\n{text(told)}\n\n{table(head, rows, markdown=(0,))}"
