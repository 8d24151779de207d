"""How verdicts read: one plain sentence each, used by every format alike."""

from __future__ import annotations

from conformance.model.verdict import Verdict
from reports.matrix import Matrix, Slot

MEANING: dict[Verdict, str] = {
    Verdict.PASS: "Every check held.",
    Verdict.FAIL: "A check did not hold.",
    Verdict.CRASH: "A rank died.",
    Verdict.TIMEOUT: "Still running at its deadline, and stopped.",
    Verdict.XFAIL: "Failed as a known issue says.",
    Verdict.XPASS: "A known issue no longer happens; its entry must go.",
    Verdict.UNSUPPORTED: "The contract says refuse, and it refused with the right error.",
    Verdict.NOT_RUN: "This host lacks something that the cell needs.",
    Verdict.ERROR: "The harness itself failed; says nothing about the thing under test.",
    Verdict.NO_DATA: "In the matrix, never reported by this lane.",
}
"""In the order in which reports list verdicts."""


def plural(count: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def message(slot: Slot) -> str:
    """One line: the verdict, why, and what to do about it."""
    parts = [f"{slot.verdict.value}: {slot.reason}" if slot.reason else slot.verdict.value]
    if slot.record and slot.record.known_issue:
        issue = slot.record.known_issue
        parts.append(f"known issue {issue.id}: {issue.title} ({issue.reference})")
    if slot.record and slot.record.remedy:
        parts.append(f"remedy: {slot.record.remedy}")
    if slot.disagree:
        parts.append(f"records disagree: {slot.told}")
    return "; ".join(parts)


def detail(slot: Slot) -> str:
    """What helps to look into a verdict: the repeat command, the log, the stacks; empty without a record."""
    if slot.record is None:
        return ""
    parts = [f"repeat: {slot.record.repeat}", slot.record.log, slot.record.stacks]
    return "\n\n".join(part for part in parts if part)


def all_known(matrix: Matrix) -> str:
    """What a report says where a known issue explains every failure; never that all is well above what is broken."""
    if not any(matrix.tally(column).ran for column in matrix.columns):
        return "Nothing ran."
    known = sum(matrix.tally(column)[Verdict.XFAIL] for column in matrix.columns)
    if not known:
        return "Nothing: no result is a failure."
    return f"Nothing new: all {plural(known, 'failing result')} are explained by the known issues below."
