"""A finding in words."""

from __future__ import annotations

from typing import Final

from rich.table import Table
from rich.text import Text

from tools.bisect.hunt import Finding
from tools.bisect.question import Question

UPSTREAM: Final = {
    "accelerate": ("huggingface/accelerate", "v"),
    "deepspeed": ("deepspeedai/DeepSpeed", "v"),
    "pytorch-lightning": ("Lightning-AI/pytorch-lightning", ""),
    "torch": ("pytorch/pytorch", "v"),
    "transformers": ("huggingface/transformers", "v"),
}
"""A package's repository on GitHub, and what its tags put before the version."""


def comparison(package: str, before: str, after: str) -> str | None:
    """The address that shows what changed between two releases; None for a package whose repository is not known."""
    if package not in UPSTREAM:
        return None
    repository, prefix = UPSTREAM[package]
    return f"https://github.com/{repository}/compare/{prefix}{before}...{prefix}{after}"


def headline(question: Question, finding: Finding) -> str:
    """What changed and where, in one sentence."""
    where = f"{question.cell} on {question.lane}"
    change = f"{finding.last.verdict} → {finding.first.verdict}"
    if finding.skipped:
        may = ", ".join([*finding.skipped, finding.first.release])
        return f"{where}: {change} with one of {question.package} {may}; those before the last cannot be tried"
    return f"{where}: {change} with {question.package} {finding.first.release}"


def reasons(finding: Finding) -> Table:
    """Both reasons side by side."""
    table = Table(show_lines=False)
    for answer in (finding.last, finding.first):
        table.add_column(Text(f"{answer.release}: {answer.verdict} ({answer.times} of {answer.times})"), ratio=1)
    table.add_row(*(Text(answer.reason or "as expected") for answer in (finding.last, finding.first)))
    return table
