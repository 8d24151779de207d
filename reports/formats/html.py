"""The page: `index.html`, and beside it `data/`, script files that it loads when they are asked for. No network.

The summary, the known issues, the integrations and the legend are plain HTML, for all columns. A script lets a reader
choose columns, and adds filters, single cells, rules and comparison. Scripts instead of requests, so that the page
works from a folder (see `reports.pack`). Whatever comes from records goes through jinja's escaping, through escaped
JSON, or through `textContent`; a content security policy allows this page's script alone, and what that script loads.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import jinja2
import markupsafe

from conformance.model.verdict import Verdict
from reports import answers, pack, places, words
from reports.answers import Answer
from reports.by_integration import by_integration
from reports.embed import script_json
from reports.grounds import grounds
from reports.groups import NEEDS_A_LOOK, NOT_TESTED, Group, Place, groups
from reports.history import Past, of_column
from reports.known import AREAS, FAULTS, by_fault, known_issues
from reports.matrix import Cell, Column, Matrix
from reports.since import steps
from reports.times import instant, minute
from reports.trend import trend

ROOT = Path(__file__).parents[1]
SCRIPTS = ("dom", "data", "fragment", "columns", "matrix", "cell", "compare", "rules", "issues", "main")
DATA = "data"
"""The folder of what the page loads when it is asked for."""
LONGEST_LIST = 30
"""How many groups a list of the summary shows."""
SOME_PLACES = 5
"""How many columns a line names."""
LONGEST_REASON = 240
"""Characters of a reason in a list; the cell's page has all of it."""

ANSWER_ICONS = {
    Answer.WORKS: Verdict.PASS.value,
    Answer.PARTLY: "partly",
    Answer.CATCH: "catch",
    Answer.REFUSED: Verdict.UNSUPPORTED.value,
    Answer.BROKEN: Verdict.FAIL.value,
    Answer.UNTESTED: Verdict.NOT_RUN.value,
}


def render(
    matrix: Matrix, history: Sequence[Past] = (), *, links: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """The texts of all files by name, `index.html` first.

    Args:
        history: gives trends, the past of each cell, and more to compare with.
        links: addresses by their text, for the page's head: the site around it, the repository.
    """
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    parts = {"cells": pack.cells(matrix, history)}
    left_out: dict[str, None] = {}
    for number, column in enumerate(matrix.columns):
        blocks, without = pack.details(matrix, column)
        left_out[without] = None
        if blocks:
            parts[f"column-{number}"] = blocks
    files = {name: _part(name, value) for name, value in parts.items()}
    names = {name: file for name, (file, _) in files.items()}
    rests_on = grounds(matrix)
    index = pack.index(
        matrix,
        rests_on,
        {
            "cells": names["cells"],
            "columns": [names.get(f"column-{number}", "") for number in range(len(matrix.columns))],
        },
    )
    issues = known_issues(matrix)
    page = (
        _environment()
        .get_template("index.html.jinja")
        .render(
            matrix=matrix,
            pages=_pages(matrix),
            chosen={
                headline.name: headline.chosen(matrix)
                for group in answers.headline_groups()
                for headline in group.headlines
            },
            trends={
                column.key: trend(_verdicts(matrix, column), of_column(column, history)) for column in matrix.columns
            },
            grounds=rests_on,
            look=groups(matrix, NEEDS_A_LOOK),
            all_known=words.all_known(matrix),
            known=issues,
            faults_of_all=by_fault(issues, [column.key for column in matrix.columns]),
            missing=groups(matrix, NOT_TESTED),
            integrations=by_integration(matrix),
            steps=steps(matrix),
            links=links,
            slot_count=len(matrix.slots),
            left_out=" ".join(filter(None, left_out)),
            style=markupsafe.Markup(_asset("report.css")),
            script=markupsafe.Markup(script),
            script_hash=f"sha256-{digest}",
            data=markupsafe.Markup(script_json(index)),
        )
    )
    return {"index.html": page, **dict(files.values())}


def _part(name: str, value: object) -> tuple[str, str]:
    """A file of data: its name, which changes with what is in it so that no old one is taken for it, and its text."""
    text = f"conformanceData({script_json(name)}, {script_json(value)});\n"
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]
    return f"{DATA}/{name}.{digest}.js", text


def _pages(matrix: Matrix) -> list[list[tuple[int, Column]]]:
    """The columns with their numbers, as many together as paper has room for; those shown first come first."""
    first = pack.shown_first(matrix)
    order = [*first, *(number for number in range(len(matrix.columns)) if number not in first)]
    numbered = [(number, matrix.columns[number]) for number in order]
    return [numbered[at : at + pack.SHOWN_FIRST] for at in range(0, len(numbered), pack.SHOWN_FIRST)]


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROOT / "templates", encoding="utf-8"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        answer=answers.answer,
        areas=AREAS,
        faults=FAULTS,
        places=places,
        answer_icon=ANSWER_ICONS,
        answer_meaning=answers.MEANING,
        cell_query=_cell_query,
        groups=answers.headline_groups,
        instant=instant,
        is_link=_is_link,
        longest=LONGEST_LIST,
        short=_short,
        some_places=SOME_PLACES,
        untested=Answer.UNTESTED,
        whose=_whose,
        meaning=words.MEANING,
        minute=minute,
        order=list(words.MEANING),
        PASS=Verdict.PASS,
        plural=words.plural,
        query=_query,
    )
    return environment


def _script() -> str:
    """The page's script: the modules one after the other in one scope of their own."""
    modules = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'\n(function () {{\n"use strict";\n{modules}}})();\n'


@functools.cache
def _asset(name: str) -> str:
    return (ROOT / "assets" / name).read_text(encoding="utf-8")


def _is_link(reference: str) -> bool:
    """Whether a reference can be followed; anything but http(s), `javascript:` above all, stays text."""
    return re.fullmatch(r"https?://[^\s\"'<>]+", reference) is not None


def _verdicts(matrix: Matrix, column: Column) -> dict[str, Verdict]:
    return {cell.id: slot.verdict for cell in matrix.cells if (slot := matrix.slot(cell, column)) is not None}


def _short(reason: str) -> str:
    return reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON].rstrip() + " …"


def _whose(fault: str) -> str:
    """`DeepSpeed's`, `the platform's`; for what does not say."""
    return f"{FAULTS[fault]}'s" if fault else "nobody's by name"


def _cell_query(cell: Cell, column: Column) -> str:
    """The fragment's query that shows one cell on one column."""
    return urllib.parse.urlencode({"id": cell.id, "at": column.slug})


def _query(group: Group, place: Place) -> str:
    """The fragment's query that shows the group's cells in one column of the matrix."""
    query = {"at": place.column.slug, "verdict": group.verdict.value}
    if group.suite:
        query |= {"suite": group.suite, "q": f"{group.suite}/{group.case}"}
    return urllib.parse.urlencode(query)
