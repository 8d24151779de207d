"""One self-contained `index.html`: no network, works from a folder."""

from __future__ import annotations

import functools
from pathlib import Path

import jinja2

from reports import answers, words
from reports.matrix import Matrix
from reports.times import instant, minute, span

ROOT = Path(__file__).parents[1]


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
        groups=answers.headline_groups,
        meaning=words.MEANING,
        instant=instant,
        minute=minute,
        span=span,
    )
    return environment


def render(matrix: Matrix) -> str:
    """The text of the page."""
    return _environment().get_template("index.html.jinja").render(matrix=matrix)
