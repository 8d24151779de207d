"""Finding what suites say of their cases: the functions that `case` has marked."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import conformance.suites
from conformance.matrix import MatrixError
from conformance.model.case import Case, case_of

SUITES: Final = Path(conformance.suites.__path__[0])


class SuiteError(Exception):
    """A suite's module cannot be imported; the text is the traceback."""


def cases_of_suite(suite: str, folder: Path = SUITES) -> dict[str, Case]:
    """The cases of `suite` by name: all that its module, or any module of its package, has marked.

    Args:
        folder: where suites lie.

    Raises:
        MatrixError: there is no such module, or two checks of one case.
        SuiteError: one of its modules cannot be imported.
    """
    root = _package_of(folder)
    try:
        top = importlib.import_module(f"{root}.{suite}")
    except ModuleNotFoundError as error:
        if error.name != f"{root}.{suite}":
            raise SuiteError(traceback.format_exc()) from error
        raise MatrixError(f"{folder / suite}: not found, expected a module or package of the suite {suite!r}") from None
    except Exception as error:
        raise SuiteError(traceback.format_exc()) from error
    modules = [top]
    for found in pkgutil.walk_packages(getattr(top, "__path__", ()), f"{root}.{suite}."):
        try:
            modules.append(importlib.import_module(found.name))
        except Exception as error:
            raise SuiteError(traceback.format_exc()) from error
    cases: dict[str, Case] = {}
    for module in modules:
        for value in vars(module).values():
            case = case_of(value)
            if case is None or case.check.__module__ != module.__name__:
                continue
            if case.suite != suite:
                raise MatrixError(f"{module.__file__}: found case {case.id!r}, expected one of the suite {suite!r}")
            if case.name in cases:
                raise MatrixError(f"{module.__file__}: found a second check of {case.id!r}, expected one a case")
            cases[case.name] = case
    return cases


def check_complete(suite: str, declared: Iterable[str], cases: Mapping[str, Case], *, folder: Path, toml: Path) -> None:
    """See that the cases that a matrix declares and those that a suite answers are the same.

    Args:
        declared: names of the cases in `toml`.
        folder: where suites lie.

    Raises:
        MatrixError: a case without a check, or a check without a case.
    """
    names = set(declared)
    for name in sorted(names - cases.keys()):
        raise MatrixError(
            f'{toml}: case {name!r}: found no check in {folder / suite}, expected one marked @case("{suite}/{name}", …)'
        )
    for name in sorted(cases.keys() - names):
        where = sys.modules[cases[name].check.__module__].__file__
        raise MatrixError(f"{where}: {suite}/{name}: found no such [[case]] in {toml}, expected one")


def _package_of(folder: Path) -> str:
    """The dotted name of a folder of suites; its parent joins the path where nothing on it leads there."""
    folder = folder.resolve()
    roots = [Path(entry or ".").resolve() for entry in sys.path]
    above = [root for root in roots if folder != root and folder.is_relative_to(root)]
    if not above:
        sys.path.append(str(folder.parent))
        return folder.name
    return ".".join(folder.relative_to(max(above, key=lambda root: len(root.parts))).parts)
