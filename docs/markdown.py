"""Markdown that is made from data: text that stays text, tables, and blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def text(words: str) -> str:
    """Text as Markdown: what stands in `backticks` is code, and nothing else means anything."""
    parts = re.split(r"(`[^`]+`)", " ".join(words.split()))
    return "".join(part if number % 2 else _escaped(part) for number, part in enumerate(parts))


def table(head: Sequence[str], rows: Iterable[Sequence[object]], markdown: Sequence[int] = ()) -> str:
    """A table; `markdown` numbers the columns whose cells are Markdown already."""
    lines = [head, ["---"] * len(head)]
    for row in rows:
        cells = [str(cell) if number in markdown else text(str(cell)) for number, cell in enumerate(row)]
        lines.append([cell.replace("|", "\\|") for cell in cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def block(content: str, language: str = "text") -> str:
    """A block of code, whatever backticks it holds."""
    longest = max((len(found) for found in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content.rstrip()}\n{fence}"


def code(words: str) -> str:
    """A word of code within a sentence."""
    return f"`` {words} ``" if "`" in words else f"`{words}`"


def _escaped(words: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#~$&])", r"\\\1", words)
