"""The reference's parts, made from the code when the site is built: each a function that returns Markdown."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pydantic

from conformance import plugin
from conformance.matrix.known_issue import KnownIssueFile
from conformance.matrix.lane import LaneFile
from conformance.matrix.rule import RuleFile, UncoveredFile
from conformance.matrix.stack import StackFile
from conformance.matrix.suite import SuiteFile
from conformance.model.cell import Cell, axis_text
from conformance.model.exit_code import ExitCode
from conformance.model.record import Record
from conformance.model.run_header import RunHeader
from conformance.model.verdict import MAY_BE_KNOWN, UNEXPECTED, Verdict
from docs.fields import fields, meanings_of, models_in
from docs.markdown import block, table, text
from docs.published import contract
from reports.formats.sqlite import SCHEMA
from reports.words import MEANING
from tools.hosts.kinds import KINDS

ROOT = Path(__file__).resolve().parents[1]
FILES: Final[Mapping[str, type[pydantic.BaseModel]]] = {
    "lanes/<lane>.toml": LaneFile,
    "suites/<suite>.toml": SuiteFile,
    "rules/<area>.toml": RuleFile,
    "rules/uncovered.toml": UncoveredFile,
    "stacks/<stack>.toml": StackFile,
    "known_issues.toml": KnownIssueFile,
}
"""What is read from matrices/, and with which model."""

PROGRAMS: Final = (
    ("conformance",),
    ("tools.ops",),
    ("tools.bisect",),
    ("tools.wine",),
    ("tools.hosts",),
    ("reports", "build"),
    ("reports", "diff"),
    ("reports", "announce"),
    ("reports", "publish"),
)
"""The programs that say themselves what they take."""


def options() -> str:
    """The harness's options."""
    taken: list[tuple[str, Mapping[str, Any]]] = []

    class Group:
        def addoption(self, name: str, **told: Any) -> None:
            taken.append((name, told))

    class Parser:
        def getgroup(self, name: str, description: str) -> Group:
            return Group()

    plugin.pytest_addoption(Parser())  # type: ignore[arg-type]
    rows = ((f"`{name} {told['metavar']}`" if "metavar" in told else f"`{name}`", told["help"]) for name, told in taken)
    return table(("option", "meaning"), rows)


def sessions() -> str:
    """The nox sessions, as noxfile.py has them."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_session(node)]
    rows = ((f"`{node.name}`", (ast.get_docstring(node) or "").splitlines()[0]) for node in found)
    return table(("session", "what it does"), rows)


def _is_session(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator).startswith("nox.session") for decorator in node.decorator_list)


def programs() -> str:
    """What each program says to --help."""
    return "\n\n".join(f"## `python -m {' '.join(words)}`\n\n```text\n{_help(words)}\n```" for words in PROGRAMS)


def _help(words: Sequence[str]) -> str:
    told = subprocess.run(
        [sys.executable, "-m", *words, "--help"], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120
    )
    if told.returncode != 0:
        raise RuntimeError(f"python -m {' '.join(words)} --help: exit code {told.returncode}: {told.stderr}")
    return told.stdout.rstrip()


def verdicts() -> str:
    """The verdicts, and what each means for a run."""
    rows = ((f"`{verdict}`", meaning, _weight(verdict)) for verdict, meaning in MEANING.items())
    return table(("verdict", "meaning", "in a run"), rows)


def _weight(verdict: Verdict) -> str:
    parts = ["as expected" if verdict.expected else f"exit code {_code(verdict).value}"]
    if verdict not in UNEXPECTED and not verdict.ran:
        parts.append("never counts as something that ran")
    if verdict in MAY_BE_KNOWN:
        parts.append(f"`{Verdict.XFAIL}` where a known issue explains it")
    return "; ".join(parts)


def _code(verdict: Verdict) -> ExitCode:
    return ExitCode.UNEXPECTED if verdict in UNEXPECTED else ExitCode.HARNESS


def exit_codes() -> str:
    """The exit codes of a lane run."""
    meanings = meanings_of(ExitCode) | {ExitCode.AS_EXPECTED.name: "All as expected, and at least one cell ran."}
    return table(("code", "when"), ((f"`{code.value}`", meanings[code.name]) for code in ExitCode))


def records() -> str:
    """The fields of a record, and of all that it holds."""
    return _models(Record)


def run_headers() -> str:
    """The fields of a run's header; its provenance is the records'."""
    return _models(RunHeader, without=models_in(Record))


def matrix_files() -> str:
    """The keys of each file in matrices/."""
    told = []
    for name, model in FILES.items():
        file, *parts = models_in(model)
        told += [f"## `matrices/{name}`", _fields(file), *(_model(part, "###") for part in parts)]
    return "\n\n".join(told)


def database() -> str:
    """The tables of the database of records."""
    return block(SCHEMA.strip(), "sql")


def lanes() -> str:
    """The lanes that there are."""
    rows = (
        (
            f"[`{lane.name}`](../lanes/{lane.name}.md)",
            lane.title,
            lane.launcher,
            ", ".join(lane.transports),
            ", ".join(f"`{need}`" for need in lane.needs),
        )
        for lane in contract().lanes.values()
    )
    return table(("lane", "title", "launcher", "transports", "needs"), rows, markdown=(0,))


def cases() -> str:
    """Each suite's cases: what is asked, over which axes, under which rules."""
    matrix = contract()
    by_case: dict[str, dict[str, list[Cell]]] = {suite: defaultdict(list) for suite in matrix.suites}
    for cell in matrix.cells:
        by_case[cell.suite][cell.case].append(cell)
    told = []
    for suite, of_suite in by_case.items():
        told.append(f"## {suite}\n\n{text(matrix.suites[suite])}")
        rows = (
            (f"`{case}`", held[0].title, ", ".join(_axes(held)), ", ".join(map(_rule_link, held[0].rules)), len(held))
            for case, held in of_suite.items()
        )
        told.append(table(("case", "what is asked", "axes", "rules", "cells"), rows, markdown=(2, 3)))
    return "\n\n".join(told)


def _axes(cells: Iterable[Cell]) -> Iterator[str]:
    values: dict[str, dict[str, None]] = {}
    for cell in cells:
        for axis, value in cell.axes.items():
            values.setdefault(axis, {})[axis_text(value)] = None
    for axis, those in values.items():
        # Cases may have dozens of values; their names are in the matrix, and here they only make the table long.
        yield f"`{axis}` ({', '.join(those)})" if len(those) <= 4 else f"`{axis}` ({len(those)} values)"


def _rule_link(rule: str) -> str:
    return f"[{rule}](../rules/{rule.lower()}.md)"


def kinds_of_host() -> str:
    """The kinds of host that can be emulated."""
    rows = []
    for kind in KINDS:
        cells = [*(["the smoke profile"] if kind.smoke else []), *(f"`{glob}`" for glob in kind.cells)]
        rows.append((f"`{kind.name}`", kind.title, ", ".join(cells)))
    return table(("kind", "what is special", "cells"), rows)


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    part.__name__.replace("_", "-"): part
    for part in (
        cases,
        database,
        exit_codes,
        kinds_of_host,
        lanes,
        matrix_files,
        options,
        programs,
        records,
        run_headers,
        sessions,
        verdicts,
    )
}


def _models(model: type[pydantic.BaseModel], without: Sequence[type[pydantic.BaseModel]] = ()) -> str:
    return "\n\n".join(_model(part, "##") for part in models_in(model) if part not in without)


def _model(model: type[pydantic.BaseModel], heading: str) -> str:
    first = (model.__doc__ or "").strip().partition("\n")[0]
    return "\n\n".join(filter(None, (f"{heading} {model.__name__}", text(first), _fields(model))))


def _fields(model: type[pydantic.BaseModel]) -> str:
    head = ("field", "kind", "default", "meaning")
    rows = [(f"`{each.name}`", each.kind, each.default or "required", each.meaning) for each in fields(model)]
    width = 4 if any(row[3] for row in rows) else 3
    return table(head[:width], [row[:width] for row in rows])
