"""The page of a rule: its sentence, where it comes from, what checks it, and what breaks it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from conformance.matrix.rule import Rule
from conformance.model.cell import Cell
from conformance.model.verdict import Verdict
from docs.markdown import code, table, text
from docs.page import Page, shortened
from docs.pages.count import HEAD, counts
from docs.published import Published
from reports.matrix import Tally


def path(rule: str) -> str:
    """Where the page is, below the site's root and without a suffix."""
    return f"rules/{rule.lower()}"


def pages(published: Published) -> list[Page]:
    """A page a rule."""
    checked: dict[str, dict[tuple[str, str], Cell]] = defaultdict(dict)
    for cell in published.contract.cells:
        for rule in cell.rules:
            checked[rule].setdefault((cell.suite, cell.case), cell)
    verdicts: dict[str, dict[tuple[str, str], Counter[Verdict]]] = defaultdict(lambda: defaultdict(Counter))
    broken: dict[str, Counter[str]] = defaultdict(Counter)
    for _, record in published.records():
        for text_of_rule in record.rules:
            verdicts[text_of_rule.id][record.suite, record.case][record.verdict] += 1
            if record.known_issue and record.verdict is Verdict.XFAIL:
                broken[text_of_rule.id][record.known_issue.id] += 1
    return [
        _page(published, rule, checked[rule.id], verdicts[rule.id], broken[rule.id])
        for rule in published.contract.rules.values()
    ]


def overview(published: Published) -> str:
    """All rules: id and sentence."""
    rules = sorted(published.contract.rules.values(), key=lambda rule: rule.id)
    rows = [(f"[{rule.id}](../{path(rule.id)}.md)", rule.text) for rule in rules]
    return table(("rule", "what it says"), rows, markdown=(0,))


def _page(
    published: Published,
    rule: Rule,
    checked: Mapping[tuple[str, str], Cell],
    verdicts: Mapping[tuple[str, str], Counter[Verdict]],
    broken: Counter[str],
) -> Page:
    parts = [
        "[All rules](../reference/rules.md)",
        text(rule.text),
        f"Source: {text(rule.source)}.",
        "## What checks it",
        _checked(published, rule, checked, verdicts),
        _broken(published, broken),
    ]
    return Page(path(rule.id), f"Rule {rule.id}", shortened(rule.text), "\n\n".join(part for part in parts if part))


def _checked(
    published: Published,
    rule: Rule,
    checked: Mapping[tuple[str, str], Cell],
    verdicts: Mapping[tuple[str, str], Counter[Verdict]],
) -> str:
    if not checked:
        return f"No case: {text(published.contract.uncovered[rule.id])}"
    rows = [
        (code("/".join(case)), cell.title, *counts(Tally(verdicts.get(case, Counter()))))
        for case, cell in checked.items()
    ]
    return f"Results of all published runs together.\n\n{table(('case', 'what is asked', *HEAD), rows, markdown=(0,))}"


def _broken(published: Published, broken: Counter[str]) -> str:
    titles = {issue.id: issue.title for issue in published.contract.known_issues}
    lines = [
        f"- [{text(titles[name])}](../issues/{name}.md): {count:,} results"
        for name, count in broken.most_common()
        if name in titles
    ]
    return "\n".join(["## What breaks it", "", *lines]) if lines else ""
