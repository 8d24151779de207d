"""Known issues as a reader meets them: what happens, whose fault it is, what to do instead, where it was seen."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from conformance.matrix import MATRICES
from conformance.matrix.known_issue import ABSENT, KnownIssue, KnownIssueFile
from conformance.matrix.toml_file import read_toml
from conformance.model.record import KnownIssueText
from conformance.model.verdict import Verdict
from reports.groups import Place
from reports.matrix import Cell, ColumnKey, Matrix

FAULTS: Final[Mapping[str, str]] = {
    "deepspeed": "DeepSpeed",
    "torch": "torch",
    "lightning": "Lightning",
    "accelerate": "Accelerate",
    "transformers": "Transformers",
    "mpi": "MPI",
    "platform": "the platform",
    "wine": "Wine",
    "": "not said",
}
"""Whose fault an issue is, in words."""

AREAS: Final[Mapping[str, str]] = {
    "start": "Starting",
    "train": "Training",
    "checkpoint": "Checkpoints",
    "offload": "Offload",
    "collectives": "Collectives",
    "trainer": "Trainers",
    "": "Other",
}
"""What an issue is about, in words, in the order of reports."""
_SUITES: Final[Mapping[str, str]] = {
    "initialize": "start",
    "launch": "start",
    "zero": "train",
    "gpu": "train",
    "checkpoint": "checkpoint",
    "interchange": "checkpoint",
    "offload": "offload",
    "collectives": "collectives",
    "integrations": "trainer",
    "lightning": "trainer",
}
"""What an issue of a record is about that says it not, by its suite."""


@dataclasses.dataclass(frozen=True)
class Issue:
    """One known issue, and where it was seen.

    Attributes:
        fault: whose it is, a key of `FAULTS`; empty if nothing says.
        area: what it is about, a key of `AREAS`.
        workaround: what a user does instead; empty if nothing says.
        affects: the versions that its entry speaks of, such as `DeepSpeed >=0.17.6,<0.18.3`; empty for all.
        places: where it was seen.
    """

    id: str
    title: str
    reference: str
    explanation: str
    fault: str
    area: str
    workaround: str
    affects: str
    places: tuple[Place, ...]

    @property
    def count(self) -> int:
        """How many results it explains."""
        return sum(len(place.cells) for place in self.places)


def known_issues(matrix: Matrix) -> list[Issue]:
    """The known issues that explain a result of the matrix: area by area, those that explain most first."""
    cells: dict[str, dict[ColumnKey, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    texts: dict[str, KnownIssueText] = {}
    for column in matrix.columns:
        for cell in matrix.cells:
            slot = matrix.slot(cell, column)
            if slot is not None and slot.verdict is Verdict.XFAIL and slot.record and slot.record.known_issue:
                texts.setdefault(slot.record.known_issue.id, slot.record.known_issue)
                cells[slot.record.known_issue.id][column.key].append(cell)
    found = []
    for id, text in texts.items():
        places = tuple(
            Place(column, tuple(cells[id][column.key])) for column in matrix.columns if column.key in cells[id]
        )
        found.append(_issue(text, places))
    order = list(AREAS)
    return sorted(found, key=lambda issue: (order.index(issue.area), -issue.count, issue.id))


def by_fault(issues: Iterable[Issue], columns: Iterable[ColumnKey]) -> dict[str, int]:
    """How many results in some columns are whose fault, the most first."""
    wanted = set(columns)
    counts: Counter[str] = Counter()
    for issue in issues:
        for place in issue.places:
            if place.column.key in wanted:
                counts[issue.fault] += len(place.cells)
    return dict(counts.most_common())


def _issue(text: KnownIssueText, places: tuple[Place, ...]) -> Issue:
    """Its entry as it is now, which may say more than the record of a while ago; a third party's has no entry here."""
    entry = _entries().get(text.id)
    said = entry.as_text() if entry else text
    suites = Counter(cell.suite for place in places for cell in place.cells)
    return Issue(
        id=text.id,
        title=said.title,
        reference=said.reference,
        explanation=said.explanation,
        fault=said.fault if said.fault in FAULTS else "",
        area=said.area if said.area in AREAS and said.area else _SUITES.get(suites.most_common(1)[0][0], ""),
        workaround=said.workaround,
        affects=", ".join(_affected(name, wanted) for name, wanted in entry.versions.items()) if entry else "",
        places=places,
    )


def _affected(package: str, wanted: str) -> str:
    name = _NAMES.get(package, package)
    return f"without {name}" if wanted == ABSENT else f"{name} {wanted}"


_NAMES: Final = {
    "deepspeed": "DeepSpeed",
    "pytorch-lightning": "Lightning",
    "accelerate": "Accelerate",
    "transformers": "Transformers",
}


@functools.cache
def _entries() -> Mapping[str, KnownIssue]:
    """The entries by id."""
    return {issue.id: issue for issue in read_toml(MATRICES / "known_issues.toml", KnownIssueFile).issue}
