"""Which rank died, and how: read from what mpiexec writes at the end of a job.

Intel MPI and MPICH say so in the line that `-print-all-exitcodes` adds, which names every rank, those too that mpiexec
itself killed in the end. Open MPI names the first one to die, and Microsoft MPI all of them.
"""

from __future__ import annotations

import dataclasses
import re
import signal
from collections.abc import Iterator

from conformance.hosts.mpi_library import Vendor

_KILLED = 9
_ENDED = -1
"""The exit code that Intel's mpiexec gives the ranks that it ends on Windows."""


@dataclasses.dataclass(frozen=True, order=True)
class RankDeath:
    """How a rank ended.

    Attributes:
        rank: in the job.
        code: its exit code, or what it passed to MPI_Abort; None where a signal ended it.
        signal: the number of the signal that ended it, or None.
        aborted: whether it called MPI_Abort, as `python -m mpi4py` does for an exception that nobody caught.
    """

    rank: int
    code: int | None = None
    signal: int | None = None
    aborted: bool = False

    @property
    def exit_code(self) -> int | None:
        """One number for both: negative for a signal, and a code as Windows has it, without a sign."""
        if self.signal is not None:
            return -self.signal
        return None if self.code is None else self.code & 0xFFFF_FFFF

    def __str__(self) -> str:
        if self.signal is not None:
            return f"rank {self.rank} was ended by {_name(self.signal)}"
        verb = "aborted" if self.aborted else "ended"
        return f"rank {self.rank} {verb} with code {self.code}"


def parse_deaths(vendor: Vendor, output: str) -> tuple[RankDeath, ...]:
    """The ranks that died by themselves, in the order of ranks; empty where mpiexec names none.

    Ranks that mpiexec ended because of another are left out. Where ranks died as those do (of SIGKILL; on Windows with
    code -1) and of nothing else, all of them are returned.

    Args:
        vendor: of the mpiexec.
        output: what it and its ranks wrote, standard output and error.
    """
    text = output.replace("\0", "").replace("\r\n", "\n")
    deaths = set({"impi": _impi, "mpich": _mpich, "openmpi": _openmpi, "msmpi": _msmpi}[vendor](text))
    aborted = {death for death in deaths if death.aborted}
    by_themselves = {death for death in deaths if death.signal != _KILLED and death.code != _ENDED}
    return tuple(sorted(aborted or by_themselves or deaths, key=lambda death: death.rank))


_ABORT = re.compile(r"^Abort\((-?\d+)\) on node (\d+) ", re.MULTILINE)
_CODES = re.compile(r"^\[mpiexec@[^\]]*\] Exit codes:((?: *\[[^\]]*\] *[-\d,]+)+)", re.MULTILINE)
_BANNER = re.compile(
    r"^=   RANK (\d+) PID \d+ RUNNING AT .*\n=   (?:KILLED BY SIGNAL: (\d+)|EXIT STATUS: (-?\d+))", re.MULTILINE
)


def _mpich(text: str) -> Iterator[RankDeath]:
    yield from _aborts(text)
    for rank, status in _codes(text):  # as wait() gives it
        yield RankDeath(rank, signal=status & 127) if status & 127 else RankDeath(rank, code=status >> 8)


def _impi(text: str) -> Iterator[RankDeath]:
    yield from _aborts(text)
    for rank, status in _codes(text):  # as a shell gives it
        yield RankDeath(rank, signal=status - 128) if 128 < status < 192 else RankDeath(rank, code=status)
    for rank, number, code in _BANNER.findall(text):
        yield RankDeath(int(rank), signal=int(number)) if number else RankDeath(int(rank), code=int(code))


def _aborts(text: str) -> Iterator[RankDeath]:
    for code, rank in _ABORT.findall(text):
        yield RankDeath(int(rank), code=int(code), aborted=True)


def _codes(text: str) -> Iterator[tuple[int, int]]:
    match = _CODES.search(text)
    hosts = re.findall(r"\[[^\]]*\] *([-\d,]+)", match[1]) if match else []
    for rank, status in enumerate(code for host in hosts for code in host.split(",") if code):
        if int(status):
            yield rank, int(status)


_OPENMPI_ABORT = re.compile(
    r"MPI_ABORT was invoked on rank (\d+) in communicator\s+.*\n(?:.*\n)??.*?[Ee]rror\s?code:? +(-?\d+)"
)
_OPENMPI_EXIT = re.compile(r"Process name: \[.*,(\d+)\]\s+Exit code: +(-?\d+)")
_OPENMPI_SIGNAL = re.compile(r"process rank (\d+) with PID \d+ on node \S+ exited\s+on\s+signal (\d+)")


def _openmpi(text: str) -> Iterator[RankDeath]:
    for rank, code in _OPENMPI_ABORT.findall(text):
        yield RankDeath(int(rank), code=int(code), aborted=True)
    for rank, code in _OPENMPI_EXIT.findall(text):
        yield RankDeath(int(rank), code=int(code))
    for rank, number in _OPENMPI_SIGNAL.findall(text):
        yield RankDeath(int(rank), signal=int(number))


_MSMPI_ABORT = re.compile(r"^aborting MPI_COMM_WORLD .*error (-?\d+), comm rank (\d+)", re.MULTILINE)
_MSMPI_ENDED = re.compile(
    r"^\[(\d+)\] on .*\n.* ended prematurely and may have crashed\. exit code (\S+)", re.MULTILINE
)


def _msmpi(text: str) -> Iterator[RankDeath]:
    for code, rank in _MSMPI_ABORT.findall(text):
        yield RankDeath(int(rank), code=int(code), aborted=True)
    for rank, code in _MSMPI_ENDED.findall(text):
        yield RankDeath(int(rank), code=int(code, 0))


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a number of another system
        return f"signal {number}"
