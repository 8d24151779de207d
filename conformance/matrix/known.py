"""What known issues make of a judgement."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from conformance.matrix.known_issue import KnownIssue
from conformance.model.cell import Cell
from conformance.model.judgement import Judgement
from conformance.model.record import Host, Record
from conformance.model.verdict import MAY_BE_KNOWN, Verdict


def explain(
    judgement: Judgement,
    cell: Cell,
    issues: Sequence[KnownIssue],
    *,
    lane: str,
    transport: str,
    integration: str,
    versions: Mapping[str, str],
    host: Host,
) -> tuple[Judgement, KnownIssue | None]:
    """The judgement in the light of the known issues, and the entry that changed it.

    A failure that an entry describes becomes XFAIL. A cell that an entry describes and that did not fail is XPASS,
    unless its integration refuses this ground or the entry speaks of a race. A failure of another kind than the
    entry's stays what it is.
    """
    covering = [
        issue for issue in issues if issue.covers(cell, lane, transport, integration) and issue.applies(versions, host)
    ]
    if judgement.verdict in MAY_BE_KNOWN:
        for issue in covering:
            if judgement.verdict.value in issue.expect and re.search(issue.match, judgement.reason):
                return Judgement(Verdict.XFAIL, judgement.reason), issue
    elif judgement.verdict in (Verdict.PASS, Verdict.UNSUPPORTED) and not judgement.by_integration:
        for issue in covering:
            if not issue.intermittent:
                reason = f"known issue {issue.id} no longer happens ({judgement.verdict}); delete or narrow its entry"
                return Judgement(Verdict.XPASS, reason), issue
    return judgement, None


def explained_later(record: Record, cells: Mapping[str, Cell], issues: Sequence[KnownIssue]) -> Record:
    """A record in the light of entries written after its run: a failure that one describes becomes XFAIL. Pure.

    Args:
        cells: the matrix's, by id; a record of a cell that is none of them stays as it is.
    """
    cell = cells.get(record.cell)
    if cell is None or record.verdict not in MAY_BE_KNOWN:
        return record
    judgement, issue = explain(
        Judgement(record.verdict, record.reason),
        cell,
        issues,
        lane=record.lane,
        transport=record.transport,
        integration=record.integration,
        versions=record.provenance.packages,
        host=record.provenance.host,
    )
    if issue is None:
        return record
    return record.model_copy(update={"verdict": judgement.verdict, "known_issue": issue.as_text()})
