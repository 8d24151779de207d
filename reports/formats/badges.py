"""Badges: for each lane an SVG, and the JSON that shields.io's endpoint badge reads."""

from __future__ import annotations

import json
from html import escape

from conformance.model.verdict import Verdict
from reports.matrix import Column, Matrix

COLOURS = {"brightgreen": "#2f7d3b", "yellow": "#8a6100", "red": "#b3131f", "lightgrey": "#59626b"}
"""shields.io's names, and dark enough shades of them for white text."""


def render(matrix: Matrix) -> dict[str, str]:
    """Texts by file name, `<lane>~<transport>~<stack>~<integration>.svg` and `.json`.

    Of columns that differ in their commit alone, the one with the latest run has the badge.
    """
    latest = {column.key.series: column for column in sorted(matrix.columns, key=lambda column: column.latest.started)}
    files = {}
    for series, column in latest.items():
        message, colour = _says(matrix, column)
        files[f"{series}.svg"] = _svg(column.label, message, COLOURS[colour])
        endpoint = {"schemaVersion": 1, "label": column.label, "message": message, "color": colour}
        files[f"{series}.json"] = json.dumps(endpoint, ensure_ascii=False) + "\n"
    return files


def _says(matrix: Matrix, column: Column) -> tuple[str, str]:
    """The message and the colour; a lane that ran nothing is never green."""
    tally = matrix.tally(column)
    if not tally.tested:
        return "nothing ran", "lightgrey"
    partial = " (partial)" if column.partial else ""
    whole = tally[Verdict.PASS] == tally.tested
    colour = "red" if tally.unexpected else "brightgreen" if whole and not partial else "yellow"
    return f"{tally[Verdict.PASS]:,} of {tally.tested:,} pass{partial}", colour


def _svg(label: str, message: str, colour: str) -> str:
    left, right = (_width(text) for text in (label, message))
    title = escape(f"{label}: {message}")
    width = left + right
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{title}">
<title>{title}</title>
<rect width="{width}" height="20" rx="3" fill="#3b4148"/>
<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{right - 3}z" fill="{colour}"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{left / 2}" y="14" textLength="{left - 12}">{escape(label)}</text>
<text x="{left + right / 2}" y="14" textLength="{right - 12}">{escape(message)}</text>
</g>
</svg>
"""


def _width(text: str) -> int:
    """Pixels that the text is given at 11 px, its margins included; `textLength` makes it fit."""
    return round(6.6 * len(text)) + 12
