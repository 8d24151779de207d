"""The program in the archive that `repro CELL --exact` writes: unpacks the harness and runs the one cell.

It runs where nothing of this project is installed, and so imports the standard library alone.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

USAGE = 2
RESULTS = "replay-results"
"""Where records and the report are left, in the folder where this is run."""


def main() -> int:
    """Run the cell, with this program's arguments as further options of `run`; returns the run's exit code: 1 where
    the fault shows, 0 where the cell passes, 2 where packages are missing."""
    with tempfile.TemporaryDirectory(prefix="replay-") as name:
        with zipfile.ZipFile(Path(__file__).parent) as archive:
            archive.extractall(name)
        told = json.loads(Path(name, "replay.json").read_text(encoding="utf-8"))
        missing = [each for each in told["needs"] if not installed(each)]
        if missing:
            print(f"error: not installed: {', '.join(missing)}; pip install {' '.join(missing)}", file=sys.stderr)
            return USAGE
        command = [sys.executable, "-m", "conformance", *told["words"], "--report-folder", str(Path.cwd() / RESULTS)]
        print(" ".join(["python", *command[1:]]), flush=True)
        return subprocess.run([*command, *sys.argv[1:]], cwd=Path(name, "harness"), check=False).returncode


def installed(name: str) -> bool:
    """Whether a distribution is there, in whatever version."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
