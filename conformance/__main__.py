"""`python -m conformance run --lane linux_gloo …`: a lane run with its own exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.pipeline.exit_code import ExitCode

ROOT = Path(__file__).resolve().parents[1]
USAGE = """usage: python -m conformance run --lane NAME [options]

Runs the cells of one lane; options are those under "DeepSpeed conformance" in `python -m pytest --help`, and pytest's.
exit codes: 0 all as expected; 1 a FAIL, CRASH, TIMEOUT or XPASS; 2 wrong usage or matrix; 3 nothing ran, or ERROR"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: this process's) and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] in (["-h"], ["--help"], []):
        print(USAGE)
        return int(ExitCode.AS_EXPECTED if words else ExitCode.USAGE)
    if words[0] != "run":
        print(f"error: found {words[0]!r}, expected 'run'\n{USAGE}", file=sys.stderr)
        return int(ExitCode.USAGE)
    # The plugin is named here although conftest.py does too: an option's value that is an existing folder would
    # otherwise be taken for the tests' folder, and the conftest.py that knows the option would not be found.
    fixed = [
        f"--rootdir={ROOT}",
        f"--config-file={ROOT / 'pyproject.toml'}",
        "-p",
        "conformance.plugin",
        "-p",
        "no:cacheprovider",
    ]
    code = int(pytest.main([*fixed, *words[1:]]))
    return int(ExitCode.USAGE) if code == pytest.ExitCode.USAGE_ERROR else code


if __name__ == "__main__":
    sys.exit(main())
