"""The other Pythons of this machine, each as a kind of host."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tools.hosts.errors import UsageError
from tools.hosts.kind import EVERYWHERE, Conditions, Kind

NAMES: Final = tuple(f"python3.{minor}" for minor in range(11, 16))
_OWN: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_NEEDED: Final = ("torch", "deepspeed", "psutil", "pydantic", "pytest")
_SECONDS: Final = 60.0
_ASK: Final = f"""
import importlib.util, json, platform
lacks = [name for name in {_NEEDED!r} if importlib.util.find_spec(name) is None]
print(json.dumps([platform.python_version(), lacks]))
"""


@dataclasses.dataclass(frozen=True)
class Python:
    """An interpreter.

    Attributes:
        path: as it was found.
        version: its own.
        lacks: what a lane run needs and it does not have.
    """

    path: str
    version: Version
    lacks: tuple[str, ...]

    @property
    def line(self) -> str:
        """`3.12`."""
        return f"{self.version.major}.{self.version.minor}"


def found(given: Iterable[Path]) -> list[Python]:
    """Those of --python and those on PATH, one a minor version; this process's own is not among them.

    Raises:
        UsageError: one of `given` is none.
    """
    by_line: dict[str, Python] = {}
    for file in given:
        python = _asked(str(file))
        if python is None:
            raise UsageError(f"--python: found {str(file)!r}, expected the interpreter of an environment")
        by_line[python.line] = python
    for path in filter(None, map(shutil.which, NAMES)):
        python = _asked(path)
        if python is not None and python.line != _OWN:
            by_line.setdefault(python.line, python)
    return [by_line[line] for line in sorted(by_line, key=Version)]


def missing(here: Iterable[Python], supported: SpecifierSet) -> dict[str, str]:
    """Of the Pythons that a stack is made for, those that are not here: by the kind's name, why."""
    lines = {python.line for python in here} | {_OWN}
    absent = {}
    for name in NAMES:
        line = name.removeprefix("python")
        if line not in lines and supported.contains(f"{line}.0", prereleases=True):
            path = shutil.which(name)
            absent[f"python-{line}"] = "is not on PATH" if path is None else f"{path} does not start"
    return absent


def kind(python: Python) -> Kind:
    """The kind of host that has this Python."""
    return Kind(
        f"python-{python.line}",
        f"Python {python.version}",
        Conditions(),
        systems=EVERYWHERE,
        python=python.path,
    )


def obstacle(python: Python, supported: SpecifierSet) -> str | None:
    """Why it cannot be tried; None if it can. Pure.

    Args:
        supported: the Pythons that the stack is made for.
    """
    if python.lacks:
        how = f"{Path(python.path).name} -m nox --envdir .nox-{python.line} -s hosts -- --kind plain"
        if not supported.contains(python.version, prereleases=True):
            return f"the stack is for Python {supported}; its pins have no builds for {python.line}"
        return f"has no {python.lacks[0]}; make an environment with: {how}"
    return None


def _asked(path: str) -> Python | None:
    """What an interpreter says of itself; None where it is none, such as the shim of a version that is not there."""
    try:
        answer = subprocess.run(
            [path, "-c", _ASK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=True,
        )
        version, lacks = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return Python(path, Version(version), tuple(lacks))
