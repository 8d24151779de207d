"""Markdown, made for the summary of a CI job: what it came to, what needs a look, then the numbers by suite."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from conformance.model.verdict import Verdict
from reports import places
from reports.answers import Answer, answer, headline_groups
from reports.groups import NEEDS_A_LOOK, NOT_TESTED, Group, groups
from reports.known import AREAS, FAULTS, known_issues
from reports.matrix import Matrix
from reports.since import steps
from reports.times import instant, minute
from reports.words import MEANING, all_known, plural

LONGEST_LIST = 50
"""CI job summaries are limited in size (GitHub: 1 MiB), and nobody reads more."""
LONGEST_REASON = 300
SOME_CELLS = 3
"""How many cells of a group are named."""

SIGN = {
    Verdict.PASS: "✅",
    Verdict.FAIL: "❌",
    Verdict.CRASH: "💥",
    Verdict.TIMEOUT: "⏰",
    Verdict.XFAIL: "⚠️",
    Verdict.XPASS: "❗",
    Verdict.UNSUPPORTED: "🚫",
    Verdict.NOT_RUN: "⚪",
    Verdict.ERROR: "🔧",
    Verdict.NO_DATA: "❔",
}
ANSWER_SIGN = {
    Answer.WORKS: "✅",
    Answer.PARTLY: "◐",
    Answer.CATCH: "⚠️",
    Answer.REFUSED: "🚫",
    Answer.BROKEN: "❌",
    Answer.UNTESTED: "⚪",
}


def render(matrix: Matrix) -> str:
    """The text of a Markdown file."""
    blocks = ["# Conformance report", *_warnings(matrix), _lanes(matrix)]
    if matrix.cells:
        blocks += [_headlines(matrix), _attention(matrix)]
        blocks.append(_versions(matrix))
        blocks.append(_known(matrix))
        blocks.append(_suites(matrix))
        blocks.append(_listed("Not tested, and why", groups(matrix, NOT_TESTED), repeat=False))
    blocks += [_legend(), f"Built {minute(matrix.built)}."]
    return "\n\n".join(block for block in blocks if block) + "\n"


def escape(text: str) -> str:
    """Text from a record as one line of Markdown that means nothing but itself, also inside a table."""
    line = " ".join(text.split())
    if len(line) > LONGEST_REASON:
        line = line[:LONGEST_REASON].rstrip() + " …"
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A zero-width joiner keeps @name and #1 from notifying people and linking to unrelated issues.
    line = re.sub(r"(?<!\w)([@#])(?=\w)", "\\1\u2060", line)
    return re.sub(r"([\\`*_{}\[\]|~!])", r"\\\1", line)


def code(text: str) -> str:
    """Text as a code span, whatever backticks and pipes it holds."""
    line = " ".join(text.split()).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _warnings(matrix: Matrix) -> list[str]:
    lines = []
    if not matrix.columns:
        lines.append("> **Nothing ran.** There is no record and no run header.")
    for column in matrix.partial:
        lines.append(f"> **Partial: {escape(column.label)}.** {escape(column.partial)}.")
    if matrix.disagreements:
        named = ", ".join(
            f"{code(cell.id)} on {escape(column.label)} ({slot.told})"
            for cell, column, slot in matrix.disagreements[:SOME_CELLS]
        )
        more = f" and {len(matrix.disagreements) - SOME_CELLS} more" if len(matrix.disagreements) > SOME_CELLS else ""
        lines.append(f"> **Records disagree; the worst counts:** {named}{more}.")
    if matrix.problems:
        shown = "; ".join(escape(str(problem)) for problem in matrix.problems[:5])
        more = f"; and {len(matrix.problems) - 5} more" if len(matrix.problems) > 5 else ""
        lines.append(f"> **{plural(len(matrix.problems), 'problem')} in the record files.** {shown}{more}.")
    return lines


def _lanes(matrix: Matrix) -> str:
    if not matrix.columns:
        return ""
    rows = []
    for column in matrix.columns:
        tally, run = matrix.tally(column), column.latest
        share = f"{tally[Verdict.PASS]:,} of {tally.tested:,}" if tally.tested else "**nothing ran**"
        where = f"under Wine {column.key.wine}" if column.key.wine else "native"
        versions = ", ".join(f"{name} {run.packages[name]}" for name in ("torch", "deepspeed") if name in run.packages)
        host = escape(f"{run.host.os_version} ({where})") if run.host else where
        partial = " **partial**" if column.partial else ""
        rows.append(
            [
                f"**{escape(column.label)}**{partial} {code(column.key.lane)}",
                share,
                escape(places.device(column)),
                str(tally.unexpected),
                str(tally[Verdict.XFAIL]),
                str(tally.refused),
                str(tally.untested),
                escape(f"{column.launcher} / {column.transport}"),
                escape(versions),
                host,
                minute(instant(run.started)),
            ]
        )
    head = ["where", "passes", "device", "unexpected", "known issues", "refused", "not tested"]
    return _table([*head, "launcher / transport", "versions", "host", "started"], rows)


def _headlines(matrix: Matrix) -> str:
    rows = []
    for group in headline_groups():
        for headline in group.headlines:
            chosen = headline.chosen(matrix)
            answers = [answer(matrix, column, chosen) for column in matrix.columns]
            cells = [
                " ".join(filter(None, (ANSWER_SIGN[found.answer], found.answer.value, found.share)))
                for found in answers
            ]
            rows.append([headline.title, *cells])
    return "## Can I use it?\n\n" + _table(["", *(escape(column.label) for column in matrix.columns)], rows)


def _listed(title: str, found: Sequence[Group], *, repeat: bool) -> str:
    if not found:
        return ""
    lines = [f"## {title}", ""]
    for group in found[:LONGEST_LIST]:
        name = f" {code(f'{group.suite}/{group.case}')}" if group.suite else ""
        reason = f": {escape(group.reason)}" if group.reason else ""
        lines.append(f"- {SIGN[group.verdict]} {escape(group.verdict.value)}{name}{reason}")
        if group.remedy:
            lines.append(f"  - remedy: {escape(group.remedy)}")
        for place in group.places:
            ids = ", ".join(code(cell.id) for cell in place.cells[:SOME_CELLS])
            more = f" and {len(place.cells) - SOME_CELLS:,} more" if len(place.cells) > SOME_CELLS else ""
            lines.append(f"  - {escape(place.column.label)}, {plural(len(place.cells), 'cell')}: {ids}{more}")
        if repeat and group.record:
            lines.append(f"  - repeat: {code(group.record.repeat)}")
    if len(found) > LONGEST_LIST:
        lines.append(f"- … and {len(found) - LONGEST_LIST:,} more in the HTML report")
    return "\n".join(lines)


def _link(reference: str) -> str:
    return f"<{reference}>" if re.fullmatch(r"https?://[^\s<>]+", reference) else escape(reference)


def _attention(matrix: Matrix) -> str:
    return (
        _listed("Needs a look", groups(matrix, NEEDS_A_LOOK), repeat=True) or f"## Needs a look\n\n{all_known(matrix)}"
    )


def _known(matrix: Matrix) -> str:
    lines = []
    for issue in known_issues(matrix):
        told = (
            f"- {SIGN[Verdict.XFAIL]} {AREAS[issue.area]}: **{escape(issue.title)}** ({plural(issue.count, 'result')})"
        )
        lines.append(told)
        if issue.workaround:
            lines.append(f"  - instead: {escape(issue.workaround)}")
        facts = [
            f"{FAULTS[issue.fault]}'s" if issue.fault else "",
            escape(issue.affects),
            _link(issue.reference),
            code(issue.id),
        ]
        lines.append(f"  - {', '.join(filter(None, facts))}")
    return "## Known issues\n\n" + "\n".join(lines) if lines else ""


def _versions(matrix: Matrix) -> str:
    found = steps(matrix)
    if not found.releases:
        return ""
    releases = ", ".join(found.releases)
    lines = [f"Tried: {escape(releases)}. {plural(found.steady, 'cell')} of {found.compared:,} came to the same.", ""]
    for step in found.steps[:LONGEST_LIST]:
        change = "worse" if step.worse else "better"
        why = f"{step.issue.title} ({step.issue.id})" if step.issue else step.reason
        where = f", {step.label}" if step.label else ""
        told = f"{step.before} → {step.after}{where}: {plural(len(step.cells), 'cell')} {change}: {why}"
        lines.append(f"- {escape(told)}; {', '.join(map(code, step.cases[:SOME_CELLS]))}")
    return "## By release of DeepSpeed\n\n" + "\n".join(lines)


def _suites(matrix: Matrix) -> str:
    used = [verdict for verdict in MEANING if any(matrix.tally(column)[verdict] for column in matrix.columns)]
    rows = []
    for suite, cells in matrix.suites.items():
        for column in matrix.columns:
            tally = matrix.tally(column, cells)
            if tally.total:
                counts = [f"{tally[verdict]:,}" if tally[verdict] else "·" for verdict in used]
                rows.append([escape(suite), escape(column.label), *counts])
    head = ["suite", "lane", *(f"{SIGN[verdict]} {verdict.value}".replace("_", "\\_") for verdict in used)]
    return "## By suite\n\n" + _table(head, rows)


def _legend() -> str:
    lines = [
        f"- {SIGN[verdict]} {verdict.value}: {meaning}".replace("_", "\\_") for verdict, meaning in MEANING.items()
    ]
    lines += [
        "",
        "`passes` counts PASS among the cells that ran and that apply; refused and untested cells are not among them.",
        "Columns may have different cells, so their counts are not to be compared.",
    ]
    return "<details><summary>How to read this</summary>\n\n" + "\n".join(lines) + "\n\n</details>"
