"""All matrix files together, checked against each other."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from conformance import integrations
from conformance.matrix.durations import read_durations
from conformance.matrix.errors import MatrixError
from conformance.matrix.known_issue import KnownIssue, KnownIssueFile
from conformance.matrix.lane import Lane, LaneFile
from conformance.matrix.rule import Rule, RuleFile, UncoveredFile
from conformance.matrix.stack import StackFile
from conformance.matrix.suite import CaseModel, SuiteFile, holds
from conformance.matrix.toml_file import read_toml
from conformance.model.cell import Cell, matches

MATRICES = Path(__file__).resolve().parents[2] / "matrices"
UNCOVERED = "uncovered.toml"


@dataclasses.dataclass(frozen=True)
class Matrix:
    """Everything that matrices/ says.

    Attributes:
        suites: titles by suite name, in order.
        cells: every cell of every suite, in file order.
        uncovered: reasons by the id of a rule that no case checks.
        seconds: recorded durations by cell id, for sharding.
    """

    folder: Path
    lanes: Mapping[str, Lane]
    stacks: Mapping[str, StackFile]
    suites: Mapping[str, str]
    cells: tuple[Cell, ...]
    rules: Mapping[str, Rule]
    uncovered: Mapping[str, str]
    known_issues: tuple[KnownIssue, ...]
    seconds: Mapping[str, float]


def load_matrix(folder: Path = MATRICES) -> Matrix:
    """Read and check all files below `folder`.

    Raises:
        MatrixError: with a line for the first file that is wrong, or for what contradicts between files.
    """
    lanes = {path.stem: read_toml(path, LaneFile).lane for path in _files(folder / "lanes")}
    stacks = _stacks(folder)
    suites = {path: read_toml(path, SuiteFile) for path in _files(folder / "suites")}
    for kind, names in (
        ("lane", {path: read.name for path, read in zip(_files(folder / "lanes"), lanes.values(), strict=True)}),
        (
            "stack",
            {path: read.stack.name for path, read in zip(_files(folder / "stacks"), stacks.values(), strict=True)},
        ),
        ("suite", {path: read.suite.name for path, read in suites.items()}),
    ):
        for path, name in names.items():
            if name != path.stem:
                raise MatrixError(f"{path}: {kind}.name: found {name!r}, expected {path.stem!r}, the file's name")
    rules = _rules(folder)
    cells = tuple(cell for path, suite in suites.items() for cell in _cells(path, suite, rules, lanes))
    uncovered = _uncovered(folder, rules, cells)
    issues_file = folder / "known_issues.toml"
    issues = tuple(read_toml(issues_file, KnownIssueFile).issue)
    known = integrations.names()
    for issue in issues:
        _check_issue(issues_file, issue, cells, lanes, known)
    seen: set[str] = set()
    for issue in issues:
        if issue.id in seen:
            raise MatrixError(f"{issues_file}: issue.id: found {issue.id!r} twice, expected distinct ids")
        seen.add(issue.id)
    return Matrix(
        folder=folder,
        lanes=lanes,
        stacks=stacks,
        suites={suite.suite.name: suite.suite.title for suite in suites.values()},
        cells=cells,
        rules=rules,
        uncovered=uncovered,
        known_issues=issues,
        seconds=read_durations(folder),
    )


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise MatrixError(f"{folder}: not found, expected a folder of TOML files")
    return sorted(folder.glob("*.toml"))


def _stacks(folder: Path) -> dict[str, StackFile]:
    """Every stack, with what it has from the one that it is over."""
    stacks = {path.stem: read_toml(path, StackFile) for path in _files(folder / "stacks")}
    alone = [name for name, file in stacks.items() if file.stack.over is None]
    for name, file in stacks.items():
        if file.stack.over is None:
            continue
        if file.stack.over not in alone:
            path = folder / "stacks" / f"{name}.toml"
            raise MatrixError(f"{path}: stack.over: found {file.stack.over!r}, expected one of {', '.join(alone)}")
        stacks[name] = file.with_all_of(stacks[file.stack.over])
    return stacks


def _rules(folder: Path) -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for path in _files(folder / "rules"):
        if path.name == UNCOVERED:
            continue
        for rule in read_toml(path, RuleFile).rule:
            if rule.id in rules:
                raise MatrixError(f"{path}: rule.id: found {rule.id!r} a second time, expected distinct ids")
            rules[rule.id] = rule
    return rules


def _cells(path: Path, suite: SuiteFile, rules: Mapping[str, Rule], lanes: Mapping[str, Lane]) -> Iterator[Cell]:
    known = integrations.names()
    for case in suite.case:
        for name in case.integrations or ():
            if name not in known:
                raise MatrixError(
                    f"{path}: case {case.name!r}: integrations: found {name!r}, expected one of {', '.join(known)}"
                )
        for rule in case.rules:
            if rule not in rules:
                raise MatrixError(
                    f"{path}: case {case.name!r}: rules: found {rule!r}, expected an id from matrices/rules/"
                )
        for lane in case.lanes or ():
            if lane not in lanes:
                raise MatrixError(
                    f"{path}: case {case.name!r}: lanes: found {lane!r}, expected one of {', '.join(lanes)}"
                )
        count = 0
        for cell in _expand(suite.suite.name, case):
            count += 1
            yield cell
        if count == 0:
            raise MatrixError(
                f"{path}: case {case.name!r}: exclude: found every combination excluded, expected at least one cell"
            )


def _expand(suite: str, case: CaseModel) -> Iterator[Cell]:
    for values in itertools.product(*case.axes.values()):
        axes = dict(zip(case.axes, values, strict=True))
        excluding = [exclusion for exclusion in case.exclude if holds(exclusion.where, axes)]
        if not all(exclusion.capabilities for exclusion in excluding):
            continue
        extra = [need for more in case.needs_when if holds(more.where, axes) for need in more.needs]
        yield Cell(
            suite=suite,
            case=case.name,
            axes=axes,
            title=case.title,
            rules=case.rules,
            deadline=case.deadline,
            needs=tuple(dict.fromkeys([*case.needs, *extra])),
            excluded_on=tuple((exclusion.capabilities, exclusion.reason) for exclusion in excluding),
            lanes=case.lanes,
            smoke=any(holds(smoke.where, axes) for smoke in case.smoke),
            core=case.core,
            integrations=case.integrations,
        )


def _uncovered(folder: Path, rules: Mapping[str, Rule], cells: tuple[Cell, ...]) -> dict[str, str]:
    path = folder / "rules" / UNCOVERED
    uncovered = (
        {entry.rule: entry.reason for entry in read_toml(path, UncoveredFile).uncovered} if path.exists() else {}
    )
    covered = {rule for cell in cells for rule in cell.rules}
    for rule in uncovered:
        if rule not in rules:
            raise MatrixError(f"{path}: uncovered.rule: found {rule!r}, expected an id from matrices/rules/")
        if rule in covered:
            raise MatrixError(f"{path}: uncovered.rule: found {rule!r}, which a case checks; delete the entry")
    for rule in rules:
        if rule not in covered and rule not in uncovered:
            raise MatrixError(
                f"{path}: rule {rule}: no case checks it and no entry says why; expected one or the other"
            )
    return uncovered


def _check_issue(
    path: Path, issue: KnownIssue, cells: tuple[Cell, ...], lanes: Mapping[str, Lane], known: Sequence[str]
) -> None:
    for glob in issue.integrations:
        if not any(matches(glob, name) for name in known):
            raise MatrixError(
                f"{path}: issue {issue.id!r}: integrations: found {glob!r}, expected one that matches any of "
                f"{', '.join(known)}"
            )
    places = [
        (lane.name, transport, name) for lane in lanes.values() for transport in lane.transports for name in known
    ]
    named = next((cell for cell in cells if issue.names(cell)), None)  # places do not depend on which
    if named is None or not any(issue.covers(named, *place) for place in places):
        raise MatrixError(
            f"{path}: issue {issue.id!r}: cells {list(issue.cells)} on lanes {list(issue.lanes)} and transports "
            f"{list(issue.transports)}: match no cell, expected at least one"
        )
