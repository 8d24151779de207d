"""A host with NVIDIA GPUs, in one go: the lane linux_nccl in the environment of this Python, and an archive of records.

    python examples/gpu_host.py --into results/gpu [--wheels DIR] [OPTIONS OF THE LANE...]

It needs torch with CUDA (2.11 or later); what else the harness needs is installed from DIR, or from the index. The
smoke profile comes first, so that a host that cannot run the lane says so within a minute. The exit code is the worst
of what ran: 1 when a cell failed, 3 when nothing ran.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Modules by the requirement that brings them; torch is the host's own.
NEEDED = {
    "deepspeed": "deepspeed==0.19.8",
    "jinja2": "jinja2",
    "psutil": "psutil",
    "pydantic": "pydantic>=2.6",
    "pytest": "pytest>=9",
    "rich": "rich",
    "xdist": "pytest-xdist",
}


def main(words: Sequence[str]) -> int:
    """Install, run, report, pack; see above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--into", type=Path, default=Path("results/gpu"), metavar="DIR")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="install from this folder, without an index")
    parser.add_argument("--lane", default="linux_nccl")
    options, of_lane = parser.parse_known_args(words)
    into = options.into.resolve()
    if (code := install(options.wheels)) != 0:
        return code
    worst = 0
    for profile in ("smoke", "full"):
        code = python(
            *("-m", "conformance", "run", "--lane", options.lane, "--profile", profile),
            *("--report-folder", str(into / profile), *of_lane),
        )
        worst = max(worst, code)
        if code > 1:
            print(f"the {profile} profile ended with {code}; why is said above", file=sys.stderr)
            break
    if not (into / "smoke").is_dir():
        return worst
    python("-m", "reports", "build", str(into / profile), "--into", str(into / "report"))
    print(f"to publish: {shutil.make_archive(str(into), 'zip', root_dir=into)}")
    return worst


def install(wheels: Path | None) -> int:
    """Install what is missing, and nothing that would replace the host's torch."""
    missing = [requirement for module, requirement in NEEDED.items() if importlib.util.find_spec(module) is None]
    if not missing:
        return 0
    source = [] if wheels is None else ["--no-index", "--find-links", str(wheels)]
    # A requirement on torch is met by the host's own, so pip leaves it alone.
    return python("-m", "pip", "install", *source, *missing)


def python(*words: str) -> int:
    """Run this Python on `words` from the root of the checkout."""
    print("$ python", *words, flush=True)
    environment = {**os.environ, "DS_BUILD_OPS": "0", "PYTHONUTF8": "1"}
    return subprocess.run([sys.executable, *words], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
