"""Reading who died from what mpiexec wrote: samples of each, and the real ones of this host."""

from __future__ import annotations

import sys

import pytest

from conformance.hosts.mpi_deaths import RankDeath, parse_deaths
from conformance.hosts.mpi_library import Vendor
from tests.mpi.mpi_jobs import HERE, Starter

RULE = "=" * 83
DASHES = "-" * 74


def banner(rank: int, how: str) -> str:
    return (
        f"\n{RULE}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
        f"=   RANK {rank} PID 2487{rank} RUNNING AT vm\n=   {how}\n{RULE}\n"
    )


MPICH_BANNER = f"""
{RULE}
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 25198 RUNNING AT vm
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
{RULE}
[mpiexec@vm] Exit codes: [vm] %s
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions
"""
HYDRA_ABORT = (
    "ValueError: as asked\n"
    "Abort(5) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 5) - process 1\n"
)
KILLED = "KILLED BY SIGNAL: 9 (Killed)"

# Intel MPI 2021.19, MPICH 5.0.2 and Open MPI 5.0.11 wrote these for three ranks of which rank 1 died; for Windows and
# for Microsoft MPI they follow the texts in the programs and their documentation.
SAMPLES: list[tuple[str, Vendor, str, list[RankDeath]]] = [
    ("abort", "impi", HYDRA_ABORT + "[mpiexec@vm] Exit codes: [vm:0] 5,5,5\n", [RankDeath(1, code=5, aborted=True)]),
    (
        "exit code",
        "impi",
        banner(0, KILLED) + banner(2, KILLED) + "[mpiexec@vm] Exit codes: [vm:0] 137,3,137\n",
        [RankDeath(1, code=3)],
    ),
    (
        "signal",
        "impi",
        banner(0, KILLED)
        + banner(1, "KILLED BY SIGNAL: 11 (Segmentation fault)")
        + banner(2, KILLED)
        + "[mpiexec@vm] Exit codes: [vm:0] 137,139,137\n",
        [RankDeath(1, signal=11)],
    ),
    (
        "signal, without the line of exit codes",
        "impi",
        banner(0, KILLED) + banner(1, "KILLED BY SIGNAL: 6 (Aborted)"),
        [RankDeath(1, signal=6)],
    ),
    (
        "killed, as all were in the end",
        "impi",
        banner(0, KILLED) + banner(1, KILLED) + "[mpiexec@vm] Exit codes: [vm:0] 137,137\n",
        [RankDeath(0, signal=9), RankDeath(1, signal=9)],
    ),
    ("Windows", "impi", banner(1, "EXIT STATUS: -1073741819 (c0000005)"), [RankDeath(1, code=-1073741819)]),
    (
        "Windows line ends",
        "impi",
        banner(1, "EXIT STATUS: 3 (3)").replace("\n", "\r\n"),
        [RankDeath(1, code=3)],
    ),
    ("good end", "impi", "[mpiexec@vm] Exit codes: [vm:0] 0,0,0\n", []),
    ("abort", "mpich", HYDRA_ABORT, [RankDeath(1, code=5, aborted=True)]),
    ("exit code", "mpich", MPICH_BANNER % "0,768,9", [RankDeath(1, code=3)]),
    ("signal", "mpich", MPICH_BANNER % "9,11,0", [RankDeath(1, signal=11)]),
    ("core dump", "mpich", MPICH_BANNER % "9,134,0", [RankDeath(1, signal=6)]),
    ("two hosts", "mpich", "[mpiexec@vm] Exit codes: [one] 0,0 [two] 768,0\n", [RankDeath(2, code=3)]),
    ("killed", "mpich", MPICH_BANNER % "0,9,9", [RankDeath(1, signal=9), RankDeath(2, signal=9)]),
    (
        "abort",
        "openmpi",
        f"""{DASHES}
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
  Proc: [[41146,1],1]
  Errorcode: 5

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
{DASHES}
{DASHES}
prterun has exited due to process rank 1 with PID 0 on node vm calling
"abort". This may have caused other processes in the application to be
terminated by signals sent by prterun (as reported here).
{DASHES}
\0""",
        [RankDeath(1, code=5, aborted=True)],
    ),
    (
        "abort, version 4",
        "openmpi",
        f"{DASHES}\nMPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\nwith errorcode 7.\n\nNOTE: …\n",
        [RankDeath(0, code=7, aborted=True)],
    ),
    (
        "exit code",
        "openmpi",
        f"""{DASHES}
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-vm-25477@1,1]
   Exit code:    3
{DASHES}
""",
        [RankDeath(1, code=3)],
    ),
    (
        "exit code, version 4",
        "openmpi",
        (
            "thus causing the job to be terminated. The first process to do so was:\n\n"
            "  Process name: [[54321,1],2]\n  Exit code:    1\n"
        ),
        [RankDeath(2, code=1)],
    ),
    (
        "signal",
        "openmpi",
        (
            f"{DASHES}\nprterun noticed that process rank 1 with PID 25804 on node vm exited on\n"
            f"signal 11 (Segmentation fault).\n{DASHES}\n"
        ),
        [RankDeath(1, signal=11)],
    ),
    (
        "signal, version 4",
        "openmpi",
        "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).\n",
        [RankDeath(1, signal=9)],
    ),
    (
        "abort",
        "msmpi",
        (
            "\r\njob aborted:\r\n[ranks] message\r\n\r\n[0] terminated\r\n\r\n[1] application aborted\r\n"
            "aborting MPI_COMM_WORLD (comm=0x44000000), error 5, comm rank 1\r\n\r\n[2] terminated\r\n"
        ),
        [RankDeath(1, code=5, aborted=True)],
    ),
    (
        "crash",
        "msmpi",
        (
            "\r\njob aborted:\r\n[ranks] message\r\n\r\n[0] terminated\r\n\r\n"
            "[1] process exited without calling finalize\r\n\r\n---- error analysis -----\r\n\r\n[1] on HOST\r\n"
            "C:\\Python\\python.exe ended prematurely and may have crashed. exit code 0xc0000005\r\n"
        ),
        [RankDeath(1, code=0xC0000005)],
    ),
]


@pytest.mark.parametrize(
    ("what", "vendor", "text", "deaths"), SAMPLES, ids=[f"{each[1]}-{each[0]}" for each in SAMPLES]
)
def test_samples(what: str, vendor: Vendor, text: str, deaths: list[RankDeath]) -> None:
    before = "rank 0: EXIT CODE: none of mpiexec's\n"
    assert list(parse_deaths(vendor, before + text)) == deaths


def test_deaths_as_text() -> None:
    assert str(RankDeath(1, code=3)) == "rank 1 ended with code 3"
    assert str(RankDeath(1, code=5, aborted=True)) == "rank 1 aborted with code 5"
    assert str(RankDeath(1, signal=11)) == "rank 1 was ended by SIGSEGV"
    assert str(RankDeath(1, signal=250)) == "rank 1 was ended by signal 250"


def test_those_that_mpiexec_ended_on_windows_are_left_out() -> None:
    assert parse_deaths("impi", "[mpiexec@vm] Exit codes: [vm:0] -1,3,-1\n") == (RankDeath(1, code=3),)


def test_a_code_below_zero_is_no_signal() -> None:
    wine = "=   RANK 1 PID 516 RUNNING AT vm\n=   EXIT STATUS: -1 (ffffffff)\n"
    (death,) = parse_deaths("impi", wine)
    assert death.exit_code == 0xFFFFFFFF
    assert RankDeath(1, signal=11).exit_code == -11
    assert RankDeath(1).exit_code is None


@pytest.mark.parametrize(
    ("how", "death"),
    [
        ("raise", RankDeath(1, code=1, aborted=True)),
        ("exit", RankDeath(1, code=3, aborted=True)),
        ("abort", RankDeath(1, code=5, aborted=True)),
        ("vanish", RankDeath(1, code=3)),
        ("segfault", RankDeath(1, signal=11)),
        ("killed", RankDeath(1, signal=9)),
    ],
)
def test_a_rank_that_dies_takes_the_set_down(start: Starter, how: str, death: RankDeath) -> None:
    """One peer waits in a barrier, the other sleeps for a minute: both are gone in seconds, and mpiexec fails."""
    if sys.platform == "win32" and death.signal is not None:
        pytest.skip("Windows has no signals")
    ended = start(3, [str(HERE / "dying_rank.py"), how], timeout=50)
    assert ended.seconds < 20, ended.output
    assert ended.code != 0
    deaths = parse_deaths(start.mpi.vendor, ended.output)
    if how == "killed":
        assert death in deaths and all(each.signal == 9 for each in deaths), ended.output
    else:
        assert deaths == (death,), ended.output
