"""A page of the site that is made from data."""

from __future__ import annotations

import dataclasses
import json

from docs.markdown import text


@dataclasses.dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        path: below the site's root and without a suffix, such as `issues/zero-to-fp32-of-stage-0`.
        title: its heading.
        description: what a search engine shows below the title; plain text.
        body: Markdown below the heading.
    """

    path: str
    title: str
    description: str
    body: str

    @property
    def source(self) -> str:
        """The page as Sphinx reads it: in no menu, since hundreds of pages would make each menu long and slow."""
        # JSON strings are YAML strings.
        front = [
            "---",
            "orphan: true",
            "myst:",
            "  html_meta:",
            f"    description: {json.dumps(self.description)}",
            "---",
        ]
        return "\n".join([*front, f"# {text(self.title)}", "", self.body, ""])


def shortened(words: str, longest: int = 160) -> str:
    """Words in one line, cut at a space where they are longer."""
    line = " ".join(words.split())
    if len(line) <= longest:
        return line
    return line[: longest - 1].rpartition(" ")[0].rstrip(",;:.") + "…"
