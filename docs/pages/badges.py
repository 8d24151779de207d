"""The badges of the published report, with what each says."""

from __future__ import annotations

from html import escape

from docs.markdown import table
from docs.published import Published


def table_of(published: Published) -> str:
    """A row a badge: its picture, and the file that shields.io reads."""
    series = dict.fromkeys(column.key.series for column in published.results.columns)
    rows = [
        (
            f'<img src="report/badges/{escape(name)}.svg" alt="{escape(name.replace("~", " "))}">',
            f"{{file}}`{name}.svg <report/badges/{name}.svg>`",
            f"{{file}}`{name}.json <report/badges/{name}.json>`",
        )
        for name in series
    ]
    return table(("badge", "picture", "for shields.io's endpoint"), rows, markdown=(0, 1, 2))
