"""What a lane run on an emulated host says otherwise than one on the machine as it is, and what explains it.

A verdict that differs is *explained* by a capability only if all of this holds:

1. The capability's value differs between the two records of the cell.
2. The matrix or the record names it, on the side that is not a PASS (on both sides if neither is): a condition over it
   in the known issue of an XFAIL, or in a need (`can:NAME`) of the case or lane whose record is NOT_RUN, or its name or
   the name of what it stands for in the reason of a NOT_RUN or UNSUPPORTED.
3. What the emulated host came to is a verdict that a good run may hold: a FAIL, CRASH, TIMEOUT, XPASS or ERROR is a
   finding, whatever the host cannot do.

A kind of host as such explains nothing: what no capability says, no user could know of his own host either.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Final

from conformance.matrix import Matrix
from conformance.model.exit_code import ExitCode, exit_code
from conformance.model.record import Record
from conformance.model.verdict import Verdict
from tools.hosts.kind import Value
from tools.hosts.running import Outcome

WORDS: Final[Mapping[str, str]] = {
    "fp16": r"fp16|float16",
    "bf16": r"bf16|bfloat16",
    "aten_isa": r"ATEN_CPU_CAPABILITY",
    "onednn_isa": r"ONEDNN_MAX_CPU_ISA|oneDNN",
    "amx": r"AMX",
    "cores": r"cores?",
    "memory_bytes": r"memory",
    "shm_bytes": r"/dev/shm",
    "locale_encoding": r"locale|PYTHONUTF8",
    "filesystem_encoding": r"file names?",
    "ipv6": r"IPv6",
    "container": r"container",
}
"""What a reason calls a capability, beside the capability's name."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """A cell whose verdict is another on the emulated host.

    Attributes:
        cell: its id.
        plain, emulated: the verdicts; None where no record came.
        capability: what explains it, as `fp16: false → true`; None where nothing does.
        reason: of the emulated host's record.
    """

    cell: str
    plain: Verdict | None
    emulated: Verdict | None
    capability: str | None
    reason: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A kind of host beside the machine as it is.

    Attributes:
        outcome: of the emulated host.
        differences: in the order of the cells.
        problems: what else is not as it should be, in sentences.
        compared: how many cells were asked on both.
    """

    outcome: Outcome
    differences: tuple[Difference, ...]
    problems: tuple[str, ...]
    compared: int

    @property
    def explained(self) -> bool:
        """Whether a capability explains every difference, and nothing else is wrong."""
        return not self.problems and all(each.capability is not None for each in self.differences)


def compare(plain: Outcome, emulated: Outcome, matrix: Matrix) -> Comparison:
    """What is different. Pure."""
    differences = []
    for cell in emulated.planned:
        first, second = plain.records.get(cell), emulated.records.get(cell)
        if first is None or second is None or first.verdict is not second.verdict:
            differences.append(
                Difference(
                    cell,
                    None if first is None else first.verdict,
                    None if second is None else second.verdict,
                    None if first is None or second is None else explanation(first, second, matrix),
                    "" if second is None else second.reason,
                )
            )
    found = [*problems(emulated), *sources(plain, emulated)]
    return Comparison(emulated, tuple(differences), tuple(found), len(emulated.planned))


def sources(plain: Outcome, emulated: Outcome) -> list[str]:
    """What else than the host is different: the harness's commit, versions. Pure."""
    if emulated.kind.python is not None or _made_from(emulated) <= _made_from(plain):
        return []
    # A host may have no git, or not be let into somebody else's checkout: what is not known says nothing.
    known = all(record.provenance.git_commit for record in emulated.records.values())
    if not known and {each[1:] for each in _made_from(emulated)} <= {each[1:] for each in _made_from(plain)}:
        return []
    return ["the plain run was made at another commit or with other versions"]


def _made_from(outcome: Outcome) -> set[tuple[object, ...]]:
    return {
        (record.provenance.git_commit, *sorted(record.provenance.packages.items()))
        for record in outcome.records.values()
    }


def problems(outcome: Outcome) -> list[str]:
    """What is wrong with a run in itself, whatever it is compared with. Pure."""
    found = []
    if outcome.exit_code is None:
        found.append(f"it was ended at its deadline, after {outcome.seconds:.0f} s")
    elif outcome.records:
        expected = exit_code(record.verdict for record in outcome.records.values())
        if outcome.exit_code != expected:
            found.append(f"its exit code is {outcome.exit_code}, and its verdicts say {int(expected)}")
    else:
        last = next((line for line in reversed(outcome.tail.splitlines()) if line.strip()), "nothing")
        found.append(f"it reported no cell; it said last: {last.strip()}")
    for host in {record.provenance.run: record.provenance.host for record in outcome.records.values()}.values():
        for name, wanted in outcome.kind.proof.items():
            if name not in host.capabilities:
                found.append(f"whether it was emulated is not known: {name}: {host.unknown.get(name, 'not asked')}")
            elif host.capabilities[name] != wanted:
                found.append(f"not emulated: {name} is {_told(host.capabilities[name])}, expected {_told(wanted)}")
    if outcome.left:
        found.append(f"processes outlived it: {', '.join(sorted(set(outcome.left)))}")
    return found


def explanation(plain: Record, emulated: Record, matrix: Matrix) -> str | None:
    """The capabilities that explain why two records of a cell differ; None where none does. Pure."""
    if not emulated.verdict.expected:
        return None
    first, second = plain.provenance.host.capabilities, emulated.provenance.host.capabilities
    changed = {name for name in first.keys() & second.keys() if first[name] != second[name]}
    for record in (plain, emulated):
        if record.verdict is not Verdict.PASS:
            changed &= named(record, matrix, changed)
    if not changed:
        return None
    return ", ".join(f"{name}: {_told(first[name])} → {_told(second[name])}" for name in sorted(changed))


def named(record: Record, matrix: Matrix, among: set[str]) -> set[str]:
    """Those of the capabilities `among` that a record, or the matrix where the record points to it, speaks of. Pure."""
    if record.verdict is Verdict.XFAIL:
        issue = next(
            (each for each in matrix.known_issues if record.known_issue and each.id == record.known_issue.id), None
        )
        conditions = () if issue is None else issue.capabilities
        return among & {condition.name for condition in conditions}
    if record.verdict is Verdict.NOT_RUN:
        needs = _needs(record, matrix)
        return {name for name in among if _speaks_of(record.reason, name) or name in needs}
    if record.verdict is Verdict.UNSUPPORTED:
        return {name for name in among if _speaks_of(record.reason, name)}
    return set()


def worst(comparisons: Sequence[Comparison], plain: Outcome) -> ExitCode:
    """The exit code of the whole. Pure."""
    good = plain.exit_code == ExitCode.AS_EXPECTED and not problems(plain)
    return ExitCode.AS_EXPECTED if good and all(each.explained for each in comparisons) else ExitCode.UNEXPECTED


def _needs(record: Record, matrix: Matrix) -> set[str]:
    """The capabilities that the needs of a record's cell and lane are conditions over."""
    cell = next((each for each in matrix.cells if each.id == record.cell), None)
    lane = matrix.lanes.get(record.lane)
    needs = [*(() if cell is None else cell.needs), *(() if lane is None else lane.needs)]
    return {match[1] for need in needs if (match := re.match(r"can:(\w+)", need))}


def _speaks_of(reason: str, name: str) -> bool:
    words = "|".join(filter(None, (re.escape(name), WORDS.get(name, ""))))
    return re.search(rf"(?<!\w)(?:{words})(?!\w)", reason, re.IGNORECASE) is not None


def _told(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
