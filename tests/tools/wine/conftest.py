"""A stand-in for Wine, for what can be tested without it, and the real one where there is one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.wine import requirements
from tools.wine.build import make
from tools.wine.environment import FOLDER_VARIABLE, PYTHON_VARIABLE, WineEnvironment, find_wine
from tools.wine.errors import WineError
from tools.wine.stamp import Stamp

ROOT = Path(__file__).resolve().parents[3]

STAND_IN = """\
#!/usr/bin/env -S -u PYTHONPYCACHEPREFIX {python}
# Without that variable: it holds a Windows path, which Linux's Python takes for a relative one.
import os, sys
if sys.argv[1:] == ["--version"]:
    print("wine-8.0 (stand-in)")
    sys.exit()
{body}
"""
PYTHON_INSTEAD = "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])  # argv[1] is the Windows program"

StandIn = Callable[..., WineEnvironment]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "wine: needs wine64 and a Windows CPython; leave out with -m 'not wine'")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if sys.platform != "linux":
        here = Path(__file__).parent
        reason = "Wine runs on Linux; Windows runs Windows programs by itself"
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    """Makes environments whose Wine is a script: it runs Linux's Python with the Windows program's arguments."""

    def make_one(body: str = PYTHON_INSTEAD) -> WineEnvironment:
        wine = tmp_path / "wine64"
        wine.write_text(STAND_IN.format(python=sys.executable, body=body), encoding="utf-8")
        wine.chmod(0o755)
        environment = WineEnvironment(tmp_path / "wine environment", wine)
        environment.home.mkdir(parents=True, exist_ok=True)
        environment.python.touch()
        Stamp(str(environment.folder), python="", requirements="", site="", wine="wine-8.0").write(environment.folder)
        return environment

    return make_one


@pytest.fixture(scope="session")
def windows() -> WineEnvironment:
    """A real Windows environment: the one that a variable names, else one made in .nox/wine."""
    folder, python = os.environ.get(FOLDER_VARIABLE), os.environ.get(PYTHON_VARIABLE)
    try:
        wine = find_wine()
    except WineError as error:
        pytest.skip(str(error))
    if folder:
        return WineEnvironment(Path(folder).absolute(), wine)
    if python:
        return make(Path(python), ROOT / ".nox" / "wine", requirements=requirements.FILE)
    pytest.skip(
        f"found neither {FOLDER_VARIABLE} nor {PYTHON_VARIABLE}; set {PYTHON_VARIABLE} to a folder with an unpacked "
        f"Windows CPython 3.11, or {FOLDER_VARIABLE} to what `python -m tools.wine make` built"
    )
