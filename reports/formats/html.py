"""One self-contained `index.html`: no network, works from a folder.

The summary, the matrix by suite, the rules and the legend are plain HTML. A script adds filters, single cells and
comparison from data that is embedded in the page (see `reports.pack`). Whatever comes from records goes through
jinja's escaping, through escaped JSON, or through `textContent`; a content security policy allows this script alone.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
import urllib.parse
from collections.abc import Iterable, Sequence
from pathlib import Path

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
from reports.known import AREAS, FAULTS, known_issues
from reports.matrix import Cell, Column, Matrix
from reports.since import steps
from reports.times import instant, minute
from reports.trend import trend

ROOT = Path(__file__).parents[1]
SCRIPTS = ("dom", "data", "fragment", "matrix", "cell", "compare", "main")
LONGEST_LIST = 30
"""How many groups a list of the summary shows."""

ANSWER_ICONS = {
    Answer.WORKS: Verdict.PASS.value,
    Answer.PARTLY: "partly",
    Answer.CATCH: "catch",
    Answer.REFUSED: Verdict.UNSUPPORTED.value,
    Answer.BROKEN: Verdict.FAIL.value,
    Answer.UNTESTED: Verdict.NOT_RUN.value,
}


def render(matrix: Matrix, history: Sequence[Past] = ()) -> str:
    """The text of the page; `history` gives trends, the past of each cell, and more to compare with."""
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    blocks, left_out = pack.details(matrix)
    by_rule: dict[str, list[Cell]] = {rule: [] for rule in matrix.rules}
    for cell in matrix.cells:
        for rule in cell.rules:
            by_rule[rule].append(cell)
    return (
        _environment()
        .get_template("index.html.jinja")
        .render(
            matrix=matrix,
            by_rule=by_rule,
            trends={
                column.key: trend(_verdicts(matrix, column), of_column(column, history)) for column in matrix.columns
            },
            grounds=grounds(matrix),
            look=groups(matrix, NEEDS_A_LOOK),
            all_known=words.all_known(matrix),
            known=known_issues(matrix),
            missing=groups(matrix, NOT_TESTED),
            integrations=by_integration(matrix),
            steps=steps(matrix),
            slot_count=len(matrix.slots),
            left_out=left_out,
            style=markupsafe.Markup(_asset("report.css")),
            script=markupsafe.Markup(script),
            script_hash=f"sha256-{digest}",
            data=markupsafe.Markup(script_json(pack.index(matrix, history))),
            blocks=[[markupsafe.Markup(block) for block in row] for row in blocks],
        )
    )


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
        cases=_cases,
        cell_query=_cell_query,
        gib=_gib,
        groups=answers.headline_groups,
        instant=instant,
        is_link=_is_link,
        longest=LONGEST_LIST,
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


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.0f} GiB"


def _cases(cells: Iterable[Cell]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((cell.suite, cell.case) for cell in cells))


def _cell_query(cell: Cell, column: Column) -> str:
    """The fragment's query that shows one cell on one column."""
    return urllib.parse.urlencode({"id": cell.id, "at": column.slug})


def _query(group: Group, place: Place) -> str:
    """The fragment's query that shows the group's cells in one column of the matrix."""
    query = {"at": place.column.slug, "verdict": group.verdict.value}
    if group.suite:
        query |= {"suite": group.suite, "q": f"{group.suite}/{group.case}"}
    return urllib.parse.urlencode(query)
