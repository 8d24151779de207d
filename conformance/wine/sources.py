"""Which sources a Windows program runs: it has no git to ask, so it is told."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

COMMIT_VARIABLE: Final = "CONFORMANCE_GIT_COMMIT"
"""Where records take the commit from when it is set; a trailing `+` says that tracked files differ from it."""


def commit_variables(folder: Path) -> dict[str, str]:
    """The variable that names the commit checked out around `folder`; nothing outside a checkout, or when it is set."""
    if COMMIT_VARIABLE in os.environ:
        return {}
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return {}
    return {COMMIT_VARIABLE: commit + ("+" if changed else "")}


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, check=True, timeout=20, encoding="utf-8").stdout.strip()
