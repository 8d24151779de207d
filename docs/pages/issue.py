"""The page of a known issue: the error as it is printed, what it means, and where it was seen."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from conformance.matrix.known_issue import KnownIssue
from conformance.model.record import Record
from conformance.model.verdict import Verdict
from docs.markdown import block, code, table, text
from docs.page import Page, shortened
from docs.pages.words import version, where
from docs.published import Published
from reports.known import AREAS, FAULTS, Issue, known_issues
from reports.matrix import Column
from reports.words import plural

MOST_ERRORS: Final = 4
LONGEST_ERROR: Final = 2500
MOST_CELLS: Final = 20

Seen = Sequence[tuple[Column, Record]]


def path(issue: KnownIssue) -> str:
    """Where the page is, below the site's root and without a suffix."""
    return f"issues/{issue.id}"


def pages(published: Published) -> list[Page]:
    """A page a known issue."""
    seen = _seen(published)
    of_report = {issue.id: issue for issue in known_issues(published.results)}
    return [_page(issue, seen.get(issue.id, ()), of_report.get(issue.id)) for issue in published.contract.known_issues]


def overview(published: Published) -> str:
    """All known issues, one line each, by what they are about."""
    entries = {issue.id: issue for issue in published.contract.known_issues}
    seen = [issue for issue in known_issues(published.results) if issue.id in entries]
    parts = []
    for area, title in AREAS.items():
        lines = [_line(entries[issue.id], _result_count(issue)) for issue in seen if issue.area == area]
        parts += [f"## {title}", "\n".join(lines)] if lines else []
    unseen = [_line(entry, "") for id, entry in entries.items() if id not in {issue.id for issue in seen}]
    parts += ["## In no published run", "\n".join(unseen)] if unseen else []
    return "\n\n".join(parts) or "None."


def _line(issue: KnownIssue, told: str) -> str:
    # The id as an anchor: entries come and go, and a link to one stays.
    return f'- <a id="{issue.id}"></a>[{text(issue.title)}](../{path(issue)}.md){told}'


def _result_count(issue: Issue) -> str:
    fault = f", {FAULTS[issue.fault]}" if issue.fault else ""
    return f" ({plural(issue.count, 'result')}{fault})"


def _seen(published: Published) -> Mapping[str, Seen]:
    found: dict[str, list[tuple[Column, Record]]] = defaultdict(list)
    for column, record in published.records():
        if record.known_issue is not None and record.verdict is Verdict.XFAIL:
            found[record.known_issue.id].append((column, record))
    return found


def _page(issue: KnownIssue, seen: Seen, of_report: Issue | None) -> Page:
    parts = [
        "[All known issues](../reference/known-issues.md)"
        + (f" · {{report}}`in the report <#{issue.id}>`" if of_report else ""),
        text(issue.explanation),
        _facts(issue, of_report),
        _errors(issue, seen),
        _where(seen),
        _cells(issue, seen),
        _repeat(seen),
    ]
    description = shortened(f"{issue.title}. {issue.explanation}")
    return Page(path(issue), issue.title, description, "\n\n".join(part for part in parts if part))


def _facts(issue: KnownIssue, of_report: Issue | None) -> str:
    reported = {"not reported": "no"}.get(issue.reference, f"<{issue.reference}>")
    versions = ", ".join(f"{name} {code(wanted)}" for name, wanted in issue.versions.items())
    host = {"any": "", "wine": "under Wine only", "native": "not under Wine"}[issue.host]
    limits = [
        ("on lanes", issue.lanes),
        ("over transports", issue.transports),
        ("driven by", issue.integrations),
    ]
    told = [f"{words} {', '.join(map(code, globs))}" for words, globs in limits if globs != ("*",)]
    told += [f"where {code(str(condition))}" for condition in issue.capabilities]
    outcome = {"FAIL": "a check does not hold", "CRASH": "a rank dies", "TIMEOUT": "ranks hang"}
    lines = [
        (
            "What happens",
            ", or ".join(outcome[verdict] for verdict in issue.expect)
            + (", now and then" if issue.intermittent else ""),
        ),
        ("Versions", versions or "all that were tried"),
        ("Where", "; ".join(filter(None, (*told, host))) or "on every lane"),
        ("Whose fault it is", FAULTS[of_report.fault] if of_report and of_report.fault else ""),
        ("What to do instead", text(of_report.workaround) if of_report else ""),
        ("Reported upstream", reported),
        ("To be looked at again", issue.review.isoformat()),
    ]
    return "\n".join(f"- {name}: {value}" for name, value in lines if value)


def _errors(issue: KnownIssue, seen: Seen) -> str:
    """The reasons as the records have them, one of each kind, the most frequent first."""
    kinds: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for _, record in seen:
        kind = re.sub(r"[\d.e+-]+", "#", record.reason)
        kinds[kind] += 1
        examples.setdefault(kind, record.reason)
    shown = [block(_cut(examples[kind])) for kind, _ in kinds.most_common(MOST_ERRORS)]
    more = len(kinds) - len(shown)
    if more > 0:
        shown.append(f"and {more:,} more that differ in their wording.")
    pattern = f"A failure is taken for this one where its reason matches\n\n{block(issue.match)}"
    return "\n\n".join(["## What you see", *shown, pattern])


def _cut(reason: str) -> str:
    return reason if len(reason) <= LONGEST_ERROR else reason[:LONGEST_ERROR] + "\n…"


def _where(seen: Seen) -> str:
    if not seen:
        return "## Where it was seen\n\nIn no published run: the runs that showed it are not published, or need a GPU."
    by_column: Counter[str] = Counter(column.slug for column, _ in seen)
    column_of = {column.slug: column for column, _ in seen}
    rows = [
        (
            text(where(column_of[slug])) + f" ({code(column_of[slug].key.lane)})",
            version(column_of[slug]),
            version(column_of[slug], "torch"),
            code(column_of[slug].key.integration),
            f"{count:,}",
        )
        for slug, count in by_column.items()
    ]
    return (
        f"## Where it was seen\n\n{table(('where', 'DeepSpeed', 'torch', 'driven by', 'cells'), rows, markdown=(0, 3))}"
    )


def _cells(issue: KnownIssue, seen: Seen) -> str:
    cells = sorted({record.cell for _, record in seen})
    if not cells:
        return "\n".join(["## Cells", "", *(f"- {code(glob)}" for glob in issue.cells)])
    lines = [f"- {code(cell)}" for cell in cells[:MOST_CELLS]]
    if len(cells) > MOST_CELLS:
        lines.append(f"- and {len(cells) - MOST_CELLS:,} more")
    return "\n".join(["## Cells that fail so", "", *lines])


def _repeat(seen: Seen) -> str:
    if not seen:
        return ""
    _, record = min(seen, key=lambda each: (each[0].key.lane != "linux_gloo", each[1].seconds))
    script = f'python -m conformance repro "{record.cell}" --into repro.py'
    return (
        f"## Repeat it\n\n{block(record.repeat, 'sh')}\n\n"
        "As a script of at most 80 lines, or with `--exact` as one file that replays it:\n\n"
        f"{block(script, 'sh')}"
    )
