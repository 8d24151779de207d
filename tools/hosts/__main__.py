"""`python -m tools.hosts`: a lane's smoke profile under many kinds of host, and a table of what is different.

Exit codes: 0 everything that differs is explained; 1 something is not; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from packaging.specifiers import SpecifierSet

from conformance.matrix import Matrix, MatrixError, load_matrix
from conformance.matrix.stack import DEFAULT_STACK
from conformance.model.cell import Cell, matches
from conformance.model.exit_code import ExitCode
from conformance.run.selection import Selection, select
from tools.hosts import ground, pythons, table
from tools.hosts.comparing import Comparison, compare, worst
from tools.hosts.errors import EmulationError, Terminated, UsageError
from tools.hosts.kind import PLAIN, Kind
from tools.hosts.kinds import KINDS
from tools.hosts.running import ROOT, Outcome, done, run

RESULTS: Final = ROOT / "results" / "hosts"
TABLE: Final = "hosts.md"
DEADLINE: Final = 1800.0
"""Seconds for one kind of host; cells have deadlines of their own."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        with _terminated_as_interrupted():
            return _main(_parser().parse_args(words))
    except (MatrixError, UsageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.USAGE)
    except KeyboardInterrupt:
        print("interrupted before there was anything to compare (exit code 1)", file=sys.stderr)
        return int(ExitCode.UNEXPECTED)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be run.

    Attributes:
        kinds: those that can be emulated, each with its cells.
        absent: by name, why a kind cannot be.
        plain: the cells of the plain run: all of theirs.
    """

    kinds: Mapping[str, tuple[Kind, list[str]]]
    absent: Mapping[str, str]
    plain: list[str]


def _main(options: argparse.Namespace) -> int:
    matrix = load_matrix()
    lane = options.lane
    if lane not in matrix.lanes:
        raise UsageError(f"--lane: found {lane!r}, expected one of {', '.join(matrix.lanes)}")
    if options.stack not in matrix.stacks:
        raise UsageError(f"--stack: found {options.stack!r}, expected one of {', '.join(matrix.stacks)}")
    if options.deadline <= 0:
        raise UsageError(f"--deadline: found {options.deadline:g}, expected seconds above 0")
    here = ground.this_machine()
    if {"win32": "windows"}.get(here.system, here.system) != matrix.lanes[lane].os:
        raise UsageError(f"--lane: found {lane!r}, expected one for this system, {here.system}")
    others = pythons.found(options.python)
    supported = SpecifierSet(matrix.stacks[options.stack].stack.python or "")
    obstacles = {kind.name: ground.obstacle(kind, here) for kind in KINDS}
    obstacles |= {pythons.kind(each).name: pythons.obstacle(each, supported) for each in others}
    missing = pythons.missing(others, supported)
    kinds = _asked([PLAIN, *KINDS, *map(pythons.kind, others)], options.kind)
    if options.list:
        for kind in kinds:
            why = obstacles.get(kind.name)
            print(f"{kind.name:20} {kind.title}" + (f" [not here: {why}]" if why else ""))
        for name, why in missing.items():
            print(f"{name:20} another Python [not here: {why}]")
        return int(ExitCode.AS_EXPECTED)
    plan = _plan(kinds, obstacles, matrix, lane, options.cell)
    if not options.kind:
        plan = dataclasses.replace(plan, absent={**plan.absent, **missing})
    return _run(plan, matrix, lane, options)


def _run(plan: Plan, matrix: Matrix, lane: str, options: argparse.Namespace) -> int:
    words = [*(() if options.stack == DEFAULT_STACK else ("--stack", options.stack)), *options.words]

    def outcome(kind: Kind, cells: Sequence[str]) -> Outcome:
        print(f"{kind.name}: {kind.title}; {len(cells)} cells", flush=True)
        into = options.into / kind.name
        return run(kind, lane, cells, into, deadline=options.deadline, words=words)

    absent, comparisons = dict(plan.absent), list[Comparison]()
    failed: dict[str, str] = {}
    interrupted = False
    try:
        plain = outcome(PLAIN, plan.plain) if options.plain is None else done(options.plain, plan.plain)
    except EmulationError as error:
        raise UsageError(str(error)) from None
    try:
        for kind, cells in plan.kinds.values():
            try:
                comparisons.append(compare(plain, outcome(kind, cells), matrix))
            except EmulationError as error:
                failed[kind.name] = f"UNEXPLAINED: {error}"
    except KeyboardInterrupt:
        interrupted = True
        reached = {each.outcome.kind.name for each in comparisons} | failed.keys()
        failed |= {name: "interrupted" for name in plan.kinds if name not in reached}
    options.into.mkdir(parents=True, exist_ok=True)
    rows = table.rows(plain, comparisons, {**failed, **absent})
    (options.into / TABLE).write_text(
        table.markdown(rows, {kind.name: kind.title for kind in (PLAIN, *KINDS)}), encoding="utf-8", newline="\n"
    )
    print(f"\n{table.text(rows, shutil.get_terminal_size((120, 24)).columns)}\n\n{options.into / TABLE}")
    code = worst(comparisons, plain)
    if failed or interrupted:
        code = ExitCode.UNEXPECTED
    said = "interrupted" if interrupted else "something is not explained" if code else "everything is explained"
    print(f"{said} (exit code {int(code)})")
    return int(code)


def _plan(
    kinds: Iterable[Kind], obstacles: Mapping[str, str | None], matrix: Matrix, lane: str, only: Sequence[str]
) -> Plan:
    cells = select(matrix, matrix.lanes[lane], Selection(globs=only))
    smoke = {cell.id for cell in select(matrix, matrix.lanes[lane], Selection(globs=only, profile="smoke"))}
    runnable: dict[str, tuple[Kind, list[str]]] = {}
    absent: dict[str, str] = {}
    for kind in kinds:
        if kind is PLAIN:
            continue
        if why := obstacles.get(kind.name):
            absent[kind.name] = why
        elif mine := [cell.id for cell in cells if _concerns(kind, cell, smoke)]:
            runnable[kind.name] = (kind, mine)
        else:
            absent[kind.name] = f"no cell of {lane} that was asked for concerns it"
    wanted = set(smoke).union(*(mine for _, mine in runnable.values()))
    if not wanted:
        raise UsageError(f"no cell of {lane} is in the smoke profile or concerns a kind of host that was asked for")
    return Plan(runnable, absent, [cell.id for cell in cells if cell.id in wanted])


def _concerns(kind: Kind, cell: Cell, smoke: set[str]) -> bool:
    return (kind.smoke and cell.id in smoke) or any(matches(glob, cell.id) for glob in kind.cells)


def _asked(kinds: Sequence[Kind], names: Sequence[str]) -> list[Kind]:
    """The kinds named; all of them where none is.

    Raises:
        UsageError: there is no such kind.
    """
    known = {kind.name: kind for kind in kinds}
    for name in names:
        if name not in known:
            raise UsageError(f"--kind: found {name!r}, expected one of {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)] if names else list(kinds)


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does, so that what was started is ended too."""

    def interrupt(*_: object) -> NoReturn:
        raise Terminated

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nox -s hosts --",
        description="A lane's smoke profile, and the cells that a kind of host concerns, under many kinds of host.",
        epilog="exit codes: 0 everything that differs is explained; 1 something is not; 2 wrong usage",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--kind", metavar="NAME", action="append", default=[], help="only this kind of host; repeatable")
    add("--list", action="store_true", help="print every kind, and why one cannot be emulated here; run none")
    default = "windows_gloo" if sys.platform == "win32" else "linux_gloo"
    add("--lane", metavar="NAME", default=default, help=f"the lane (default: {default})")
    add("--stack", metavar="NAME", default=DEFAULT_STACK, help=f"the installed stack (default: {DEFAULT_STACK})")
    add("--cell", metavar="GLOB", action="append", default=[], help="of the cells only these; repeatable")
    add("--python", metavar="FILE", action="append", default=[], type=Path, help="another interpreter to try")
    add("--plain", metavar="DIR", type=Path, help="take the plain run's records from here, such as results/linux_gloo")
    add("--deadline", metavar="S", type=float, default=DEADLINE, help=f"seconds a kind (default: {DEADLINE:.0f})")
    add("--into", metavar="DIR", type=Path, default=RESULTS, help="where records go, a folder a kind")
    add("words", nargs="*", metavar="OPTION", help="after a further --: options of a lane run, such as -n 2")
    return parser


if __name__ == "__main__":
    sys.exit(main())
