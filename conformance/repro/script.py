"""The text of a script that shows what a cell shows."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pprint
import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import Any

from conformance import integrations
from conformance.hosts.bundles import Bundles
from conformance.matrix import Matrix
from conformance.matrix.lane import Lane
from conformance.model.case import Check, Step, case_of
from conformance.model.cell import Cell
from conformance.repro import runner
from conformance.repro.flatten import Flat, Imported, NotFlat, Source, Symbol, flatten, parse, source_of
from conformance.repro.folding import Known
from conformance.run.cases import cases_of_suite

WIDTH = 120
IMPORTS = 120.0
"""Seconds that fresh interpreters may take to import torch and DeepSpeed, beside the cell's deadline."""

TAKEN = ("AXES", "CELL", "sys")
"""Names that the script itself uses."""

_RUNNER = runner.__name__
_REGISTRY = Symbol("conformance.integrations.registry", "integration")
_TASKS = Symbol("conformance.models.task", "_TASKS")


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a script is to be about.

    Attributes:
        observed: what a record says of the cell: verdict, reason and versions; empty without a record.
        command: what makes this script, for its first lines.
    """

    cell: Cell
    lane: Lane
    transport: str
    integration: str
    observed: str
    command: str


def check_of(cell: Cell) -> Check:
    """The function that judges a cell of the suites."""
    return cases_of_suite(cell.suite)[cell.case].check


def script(wanted: Wanted, matrix: Matrix, check: Callable[..., Any]) -> str:
    """A Python file that runs the cell in ranks of its own and says PASS, or FAIL and why.

    It imports torch, DeepSpeed and what else they need; and this project only where the scenario cannot stand alone,
    which its first lines say then.

    Raises:
        NotRun: the cell's plan needs what this host lacks.
    """
    case = case_of(check)
    assert case is not None, check
    given = {"bundles": Bundles()}
    steps = case.plan(
        wanted.cell.axes, **{name: given[name] for name in inspect.signature(case.plan).parameters if name in given}
    )
    try:
        roots = [*_roots(steps, check), *map(_runner, ("Step", "Cell", "run"))]
        everywhere = _known(wanted, steps)
        own = {_symbol(check): dataclasses.replace(everywhere, parameters=wanted.cell.axes, varying=(), axes=True)}
        stand_ins = {_REGISTRY: _integration(wanted.integration), _TASKS: _tasks(None)}
        words = flatten(roots, stand_ins, own, TAKEN, everywhere).words
        words |= {str(value) for step in steps for value in {**wanted.cell.axes, **step.parameters}.values()}
        own = {symbol: dataclasses.replace(known, words=words) for symbol, known in own.items()}
        everywhere = dataclasses.replace(everywhere, words=words)
        flat = flatten(roots, {**stand_ins, _TASKS: _tasks(words)}, own, TAKEN, everywhere)
    except NotFlat as reason:
        return _text(
            wanted, matrix, _imported(steps, check), lambda function: function.__qualname__, steps, check, str(reason)
        )
    body = [*flat.imports, "", *(f"\n{each}\n" for each in flat.definitions)]
    return _text(wanted, matrix, body, _names_when_flat(flat), steps, check, "")


def _known(wanted: Wanted, steps: Sequence[Step]) -> Known:
    """What every step of the cell is told."""
    told = [{**wanted.cell.axes, **step.parameters} for step in steps]
    names = {name for each in told for name in each}
    same = {name for name in names if all(each.get(name, told) == told[0].get(name, steps) for each in told)}
    setting = {
        "integration": wanted.integration,
        "transport": wanted.transport,
        "launcher": wanted.lane.launcher,
        "device": _device(wanted.lane),
    }
    return Known(setting, {name: told[0][name] for name in same}, names - same)


def _device(lane: Lane) -> str:
    return "cuda" if lane.device == "cuda" else "cpu"


def _roots(steps: Sequence[Step], check: Callable[..., Any]) -> list[Symbol]:
    return [*dict.fromkeys(_symbol(step.scenario) for step in steps), _symbol(check)]


def _symbol(function: Callable[..., Any]) -> Symbol:
    if "." in function.__qualname__:
        raise NotFlat(f"{function.__qualname__} is not defined at the top of its module")
    return Symbol(function.__module__, function.__name__)


def _runner(name: str) -> Symbol:
    return Symbol(_RUNNER, name)


def _tasks(words: Collection[str] | None) -> Source:
    """A module with the table of tasks, as far as `words` name them; None for all."""
    source = source_of(_TASKS.module)
    (table,) = source.statements[_TASKS.name]
    calls = [
        node
        for node in ast.walk(table)
        if isinstance(node, ast.Call) and isinstance(first := node.args[0], ast.Constant)
        if words is None or first.value in words
    ]
    entries = "".join(f"    {ast.unparse(call.args[0])}: {ast.unparse(call)},\n" for call in calls)
    modules = sorted(name for name, target in source.bindings.items() if isinstance(target, Imported))
    text = (
        f"from conformance.models import {', '.join(modules)}\n"
        f"from {_TASKS.module} import Task\n"
        f"{_TASKS.name} = {{\n{entries}}}\n"
    )
    return parse("conformance.repro.tasks", text)


def _integration(name: str) -> Source:
    """A module with a function that gives the integration `name` without looking it up."""
    module, _, attribute = integrations.entry(name).place.partition(":")
    text = f"from {module} import {attribute}\ndef integration(_name):\n    return {attribute}\n"
    return parse("conformance.repro.integration", text)


Name = Callable[[Callable[..., Any]], str]
"""What a function of this project is called in the script."""


def _names_when_flat(flat: Flat) -> Name:
    return lambda function: flat.names[Symbol(function.__module__, function.__qualname__)]


def _imported(steps: Sequence[Step], check: Callable[..., Any]) -> list[str]:
    functions: dict[Any, None] = dict.fromkeys(
        [runner.Cell, runner.Step, runner.run, *(step.scenario for step in steps), check]
    )
    return sorted(f"from {function.__module__} import {function.__qualname__}" for function in functions)


def _text(
    wanted: Wanted,
    matrix: Matrix,
    body: Sequence[str],
    name: Name,
    steps: Sequence[Step],
    check: Callable[..., Any],
    reason: str,
) -> str:
    cell, lane = wanted.cell, wanted.lane
    device = _device(lane)
    environment: dict[str, str | None] = dict(lane.environment)
    if device == "cpu":
        environment |= {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    arguments = {
        "id": repr(cell.id),
        "axes": "AXES",
        "steps": f"[{', '.join(_step(step, cell, name) for step in steps)}]",
        "check": name(check),
        "given": repr(list(inspect.signature(check).parameters)),
        "launcher": repr(lane.launcher),
        "transport": repr(wanted.transport),
        "device": repr(device),
        "integration": repr(wanted.integration),
        "deadline": repr(cell.deadline * lane.deadline_factor + IMPORTS),
        "environment": repr(environment),
    }
    call = "\n".join(f"    {key}={value}," for key, value in arguments.items())
    return "\n".join(
        [
            f'r"""{_head(wanted, matrix, steps, reason)}"""',
            "",
            "from __future__ import annotations",
            "",
            *body,
            "",
            f"AXES = {pprint.pformat(dict(cell.axes), width=WIDTH, sort_dicts=False)}",
            f"CELL = {name(runner.Cell)}(\n{call}\n)",
            "",
            'if __name__ == "__main__":',
            "    import sys",
            "",
            f"    sys.exit({name(runner.run)}(CELL, __file__))",
            "",
        ]
    )


def _step(step: Step, cell: Cell, name: Name) -> str:
    more = {"parameters": step.parameters, "environment": step.environment}
    rest = "".join(f", {key}={dict(value)!r}" for key, value in more.items() if value)
    return f"{name(runner.Step)}({name(step.scenario)}, {step.ranks(cell.axes)}{rest})"


def _head(wanted: Wanted, matrix: Matrix, steps: Sequence[Step], reason: str) -> str:
    cell = wanted.cell
    ranks = max(step.devices(cell.axes) for step in steps)
    how = "Run it with `python`: it starts its own ranks" + (" with mpiexec" if wanted.lane.launcher == "mpi" else "")
    about = f"The case {cell.id}, {_plural(ranks, 'rank')} at most. {how}, says PASS or FAIL, and ends with 0 or 1."
    paragraphs = [f"{cell.title}.", about]
    if reason:
        paragraphs.append(
            f"It also needs the package `conformance` of the harness that made it on the path, since the scenario "
            f"cannot stand alone: {reason}."
        )
    paragraphs += [f"Expected ({rule}): {matrix.rules[rule].text} [{matrix.rules[rule].source}]" for rule in cell.rules]
    if wanted.observed:
        paragraphs.append(f"Observed: {wanted.observed}")
    for issue in matrix.known_issues:
        if issue.covers(cell, wanted.lane.name, wanted.lane.transports[0], wanted.integration):
            paragraphs.append(
                f"Known issue {issue.id}: {issue.title}. {issue.explanation} Reference: {issue.reference}."
            )
    paragraphs.append(f"Made by: {wanted.command}")
    wrapped = [textwrap.fill(each, WIDTH, break_long_words=False, break_on_hyphens=False) for each in paragraphs]
    return "\n\n".join(wrapped).replace('"""', "'''") + "\n"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
