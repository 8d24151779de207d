"""One release of one package, put before an environment's own for a while."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

INSTALL_SECONDS: Final = 1800.0
IMPORT_SECONDS: Final = 300.0
_TAIL: Final = 3
"""How many lines of a failed installation are told."""


class UnusableError(Exception):
    """A release that cannot be installed (`installed` False) or imported."""

    def __init__(self, reason: str, *, installed: bool) -> None:
        super().__init__(reason)
        self.installed = installed


@contextlib.contextmanager
def overlay(
    package: str, release: str, environ: Mapping[str, str], *, index_url: str | None = None
) -> Iterator[dict[str, str]]:
    """The variables under which this Python finds that release first; it is gone afterwards.

    Nothing that the release requires is installed: the stack's own packages are what it runs with.

    Args:
        environ: the present variables.
        index_url: another index than pip's own settings name.

    Raises:
        UnusableError: it does not install or does not import.
    """
    folder = Path(tempfile.mkdtemp(prefix="conformance-bisect-"))
    try:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        install += [] if index_url is None else ["--index-url", index_url]
        # DeepSpeed's source releases are pure Python in seconds when no op is built.
        _run([*install, f"{package}=={release}"], {**environ, "DS_BUILD_OPS": "0"}, INSTALL_SECONDS, installed=False)
        path = os.pathsep.join([str(folder), *filter(None, [environ.get("PYTHONPATH")])])
        variables = {**environ, "PYTHONPATH": path}
        _run([sys.executable, "-c", f"import {module_of(package)}"], variables, IMPORT_SECONDS, installed=True)
        yield variables
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def module_of(package: str) -> str:
    """What a distribution is imported as, where the two differ by hyphens only. Pure."""
    return package.replace("-", "_")


def _run(command: list[str], variables: Mapping[str, str], seconds: float, *, installed: bool) -> None:
    what = "does not import" if installed else "does not install"
    try:
        ended = subprocess.run(
            command, env=variables, capture_output=True, encoding="utf-8", errors="replace", timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise UnusableError(f"{what} within {seconds:.0f} s", installed=installed) from None
    if ended.returncode != 0:
        said = [line.strip() for line in ended.stderr.splitlines() if line.strip() and "WARNING" not in line]
        raise UnusableError(f"{what}: {' '.join(said[-_TAIL:])}", installed=installed)
