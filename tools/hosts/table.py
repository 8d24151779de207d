"""The table of hosts, as text for a console and as Markdown."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tools.hosts.comparing import Comparison, Difference, problems
from tools.hosts.running import Outcome

Row = tuple[str, str, str, str]
HEAD: Final[Row] = ("host", "exit code", "cells", "differs from the plain run")
_SHOWN: Final = 4
"""How many cells that nothing explains are named."""


def rows(plain: Outcome, comparisons: Sequence[Comparison], absent: Mapping[str, str]) -> list[Row]:
    """The table's rows. Pure.

    Args:
        absent: by the name of a kind, why it could not be emulated.
    """
    whole = [(plain.kind.name, _code(plain), str(len(plain.records)), "; ".join(problems(plain)) or "–")]
    for each in comparisons:
        told = "; ".join([*each.problems, *_told(each.differences)]) or "nothing"
        whole.append((each.outcome.kind.name, _code(each.outcome), str(each.compared), told))
    return [*whole, *((name, "not run", "–", why) for name, why in absent.items())]


def text(table: Sequence[Row], width: int) -> str:
    """For a console of `width` characters. Pure."""
    widths = [max(len(row[column]) for row in (HEAD, *table)) for column in range(3)]
    left = sum(widths) + 2 * len(widths)
    lines = []
    for row in (HEAD, *table):
        start = "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=False)) + "  "
        said = textwrap.wrap(row[3], max(40, width - left), break_long_words=False, break_on_hyphens=False) or [""]
        lines += [start + said[0], *(" " * left + more for more in said[1:])]
    return "\n".join(lines)


def markdown(table: Sequence[Row], titles: Mapping[str, str]) -> str:
    """A page with the table. Pure."""
    lines = ["# Hosts", "", f"| {' | '.join(HEAD)} |", "|---|---|---|---|"]
    for name, code, cells, said in table:
        title = f"{name}: {titles[name]}" if name in titles else name
        lines.append(f"| {' | '.join(part.replace('|', chr(92) + '|') for part in (title, code, cells, said))} |")
    return "\n".join([*lines, ""])


def _code(outcome: Outcome) -> str:
    return "deadline" if outcome.exit_code is None else str(outcome.exit_code)


def _told(differences: Sequence[Difference]) -> Iterator[str]:
    """Explained ones counted by what explains them, the others by name."""
    counted = Counter((_change(each), each.capability) for each in differences if each.capability is not None)
    for (change, capability), count in counted.items():
        yield f"{count} × {change} ({capability})"
    open_ones = [each for each in differences if each.capability is None]
    by_change = Counter(map(_change, open_ones))
    for change, count in by_change.items():
        some = [each for each in open_ones if _change(each) == change]
        names = ", ".join(each.cell for each in some[:_SHOWN]) + (", …" if count > _SHOWN else "")
        reason = next((each.reason for each in some if each.reason), "")
        yield f"UNEXPLAINED {count} × {change}: {names}" + (f" ({' '.join(reason.split())[:160]})" if reason else "")


def _change(difference: Difference) -> str:
    return " → ".join("no record" if each is None else each.value for each in (difference.plain, difference.emulated))
