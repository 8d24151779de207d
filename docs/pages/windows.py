"""What the published records say of Windows, for the guide."""

from __future__ import annotations

from collections import Counter

from conformance.model.verdict import Verdict
from docs.markdown import table, text
from docs.pages import feature
from docs.published import Published
from reports.answers import Answered, answer
from reports.matrix import Column


def answers(published: Published) -> str:
    """Each feature on each Windows lane, driven by the reference integration."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for headline in feature.headlines():
        for column in _columns(published):
            answered = answer(published.results, column, headline.chosen(published.results))
            if answered.tally.total:
                link = f"[{text(headline.title)}]({feature.path(headline)}.md)"
                row = (link, answered.answer.value, answered.share, _rest(answered))
                rows.setdefault(row, []).append("mpiexec" if column.launcher == "mpi" else "variables")
    return table(
        ("feature", "ranks by", "answer", "passes", "what does not"),
        ((row[0], ", ".join(launchers), *row[1:]) for row, launchers in rows.items()),
        markdown=(0,),
    )


def _rest(answered: Answered) -> str:
    return "; ".join(filter(None, (answered.catch, answered.untested, answered.refused)))


def issues(published: Published) -> str:
    """The known issues that were seen on Windows and nowhere else."""
    lanes = {lane.name: lane.os for lane in published.contract.lanes.values()}
    seen: Counter[str] = Counter()
    elsewhere: set[str] = set()
    for column, record in published.records():
        if record.known_issue and record.verdict is Verdict.XFAIL:
            if lanes.get(column.key.lane) == "windows":
                seen[record.known_issue.id] += 1
            else:
                elsewhere.add(record.known_issue.id)
    lines = [
        f"- [{text(issue.title)}](issues/{issue.id}.md)"
        for issue in published.contract.known_issues
        if issue.id in seen and issue.id not in elsewhere
    ]
    return "\n".join(lines) or "None is published."


def _columns(published: Published) -> list[Column]:
    return [
        column
        for column in published.results.columns
        if column.key.lane.startswith("windows") and (column.key.stack, column.key.integration) == feature.FIRST
    ]
