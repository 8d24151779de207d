"""The program in the archive that `repro CELL --exact` writes: unpacks the harness and runs the one cell.

It runs where nothing of this project is installed, and so imports the standard library alone.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NEEDS = {
    # by module: the distribution that has it
    "deepspeed": "deepspeed",
    "filelock": "filelock",
    "jinja2": "jinja2",
    "mpi4py": "mpi4py",
    "numpy": "numpy",
    "packaging": "packaging",
    "psutil": "psutil",
    "pydantic": "pydantic",
    "pytest": "pytest",
    "rich": "rich",
    "torch": "torch",
    "xdist": "pytest-xdist",
}
"""What the extra `harness` of pyproject.toml asks for, as far as a run needs it."""

USAGE = 2


def main() -> int:
    """Run the cell; returns the exit code of the run: 0 as expected, 1 where the fault shows."""
    missing = [name for module, name in NEEDS.items() if importlib.util.find_spec(module) is None]
    if missing:
        print(f"error: {', '.join(missing)} not installed; pip install {' '.join(missing)}", file=sys.stderr)
        return USAGE
    with tempfile.TemporaryDirectory(prefix="conformance-replay-") as name:
        with zipfile.ZipFile(Path(__file__).parent) as archive:
            archive.extractall(name)
        told = json.loads(Path(name, "replay.json").read_text(encoding="utf-8"))
        print(f"{told['cell']}: python -m conformance {' '.join(told['words'])}", flush=True)
        results = Path.cwd() / "replay-results"
        command = [sys.executable, "-m", "conformance", *told["words"], "--report-folder", str(results)]
        return subprocess.run([*command, *sys.argv[1:]], cwd=Path(name, "harness"), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
