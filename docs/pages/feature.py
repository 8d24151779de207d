"""The page of a feature: where it works, where it does not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from conformance.model.record import KnownIssueText
from conformance.model.verdict import Verdict
from docs.markdown import code, table, text
from docs.page import Page, shortened
from docs.pages.words import version, where
from docs.published import Published
from reports import places
from reports.answers import Headline, answer, headline_groups
from reports.matrix import Cell, Column

FIRST: Final = ("pinned", "reference")
"""The stack and the integration that a reader without wishes is shown first."""


def headlines() -> list[Headline]:
    """All features, in the report's order."""
    return [headline for group in headline_groups() for headline in group.headlines]


def path(headline: Headline) -> str:
    """Where the page is, below the site's root and without a suffix."""
    return f"features/{headline.name}"


def pages(published: Published) -> list[Page]:
    """A page a feature."""
    return [_page(published, headline) for headline in headlines()]


def overview(published: Published) -> str:
    """All features on the lanes that a reader meets first, as a table."""
    first = [column for column in published.results.columns if _is_first(column)]
    rows = [
        [f"[{text(each.title)}]({path(each)}.md)", *(_short(published, each, column) for column in first)]
        for each in headlines()
    ]
    head = ["feature", *(f"{where(column)} ({column.key.lane})" for column in first)]
    return table(head, rows, markdown=range(len(head)))


def _is_first(column: Column) -> bool:
    return (column.key.stack, column.key.integration) == FIRST


def _short(published: Published, headline: Headline, column: Column) -> str:
    answered = answer(published.results, column, headline.chosen(published.results))
    return f"{answered.answer.value} ({answered.share})" if answered.share else answered.answer.value


def _page(published: Published, headline: Headline) -> Page:
    results = published.results
    cells = headline.chosen(results)
    held = [column for column in results.columns if results.column_slots(column, cells)]
    first = [column for column in held if _is_first(column)]
    parts = [
        f"[All features](../works.md) · {{report}}`in the report <#matrix?feature={headline.name}>`",
        _summary(published, headline, first or held),
        "## Where it works",
        _where(published, cells, held),
        _issues(published, cells),
        _untested(published, cells),
        "## What is asked",
        _asked(published, cells),
    ]
    return Page(
        path(headline), f"{headline.title}: does it work?", _description(published, headline, held), _join(parts)
    )


def _join(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _summary(published: Published, headline: Headline, held: Sequence[Column]) -> str:
    lines = []
    for column in held:
        answered = answer(published.results, column, headline.chosen(published.results))
        caveat = headline.caveat(column)
        ground = f"{where(column)}, DeepSpeed {version(column)}" + (f", {caveat}" if caveat else "")
        lines.append(f"- {text(ground)}: **{answered.answer.value}**{_in_brackets(answered.detail)}")
    return "\n".join(lines) or "No published run has a cell that asks this."


def _in_brackets(detail: str) -> str:
    return f" ({text(detail)})" if detail else ""


def _description(published: Published, headline: Headline, held: Sequence[Column]) -> str:
    told = []
    for column in held:
        if _is_first(column):
            answered = answer(published.results, column, headline.chosen(published.results))
            told.append(f"{where(column)}: {answered.answer.value}")
    return shortened(f"{headline.title} with DeepSpeed, tried by running it. {'; '.join(told)}.")


def _where(published: Published, cells: Sequence[Cell], held: Sequence[Column]) -> str:
    rows = []
    for column in held:
        answered = answer(published.results, column, cells)
        rest = "; ".join(filter(None, (answered.catch, answered.untested, answered.refused)))
        ground = f"{text(where(column))} ({code(column.key.lane)})"
        rows.append((ground, places.integration(column), version(column), answered.answer.value, answered.share, rest))
    head = ("where", "driven by", "DeepSpeed", "answer", "passes", "what does not")
    note = "A row is one published run. [What green means](../green.md)."
    return f"{note}\n\n{table(head, rows, markdown=(0,))}"


def _issues(published: Published, cells: Sequence[Cell]) -> str:
    wanted = {cell.id for cell in cells}
    found: Counter[str] = Counter()
    texts: dict[str, KnownIssueText] = {}
    for _, record in published.records():
        if record.cell in wanted and record.known_issue and record.verdict is Verdict.XFAIL:
            found[record.known_issue.id] += 1
            texts[record.known_issue.id] = record.known_issue
    if not found:
        return ""
    lines = [
        f"- [{text(texts[name].title)}](../issues/{name}.md): {count:,} results" for name, count in found.most_common()
    ]
    known = {issue.id for issue in published.contract.known_issues}
    kept = [line for line, (name, _) in zip(lines, found.most_common(), strict=True) if name in known]
    return "## What does not work\n\n" + "\n".join(kept) if kept else ""


def _untested(published: Published, cells: Sequence[Cell]) -> str:
    wanted = {cell.id for cell in cells}
    found: Counter[tuple[str, str]] = Counter()
    lanes: dict[tuple[str, str], dict[str, None]] = {}
    for column, record in published.records():
        if record.cell in wanted and record.verdict is Verdict.NOT_RUN:
            why = (record.reason, record.remedy or "")
            found[why] += 1
            lanes.setdefault(why, {})[column.key.lane] = None
    if not found:
        return ""
    rows = [
        (reason, ", ".join(map(code, lanes[reason, remedy])), remedy, f"{count:,}")
        for (reason, remedy), count in found.most_common()
    ]
    head = ("why", "lanes", "what to do", "results")
    return f"## What was not tested, and why\n\n{table(head, rows, markdown=(1,))}"


def _asked(published: Published, cells: Sequence[Cell]) -> str:
    cases: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        cases.setdefault((cell.suite, cell.case), []).append(cell)
    known = published.contract.rules
    # As the case is worded now; a record has the words of its day.
    titles = {(cell.suite, cell.case): cell.title for cell in published.contract.cells}
    rows = []
    for (suite, case), some in cases.items():
        rules = dict.fromkeys(rule for cell in some for rule in cell.rules)
        links = ", ".join(f"[{rule}](../rules/{rule.lower()}.md)" if rule in known else rule for rule in rules)
        rows.append((code(f"{suite}/{case}"), titles.get((suite, case), some[0].title), links, f"{len(some):,}"))
    suites = dict.fromkeys(suite for suite, _ in cases)
    command = "\n".join(f"    python -m nox -s linux_gloo -- --suite {suite}" for suite in suites)
    return (
        f"{table(('case', 'title', 'rules', 'cells'), rows, markdown=(0, 2))}\n\nRun it on your machine:\n\n{command}"
    )
