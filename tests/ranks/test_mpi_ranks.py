"""Ranks that mpiexec starts, with each MPI of this host."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.hosts import mpi_library
from conformance.hosts.mpi_library import MpiLibrary
from conformance.ranks import Job, Outcome, RankPool, RankStatus, open_pool
from tests.mpi.mpi_jobs import NONE, available
from tests.ranks.rank_support import descendants, statuses, wait_until

JobMaker = Callable[..., Job]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mpi" in metafunc.fixturenames:
        found = [pytest.param(mpi, id=mpi.vendor) for mpi in available()]
        missing = pytest.param(None, id="none", marks=pytest.mark.skip(reason=NONE))
        metafunc.parametrize("mpi", found or [missing], scope="module")


@pytest.fixture(scope="module")
def pool(mpi: MpiLibrary) -> Iterator[RankPool]:
    """A reservoir of ranks that have started MPI."""
    before = descendants()
    opened = open_pool(mode="prewarmed", launcher="mpi", mpi=mpi, preload=("mpi4py.MPI",))
    yield opened
    opened.close()
    assert wait_until(lambda: descendants() <= before, 5.0), descendants() - before


@pytest.fixture
def make_mpi_job(make_job: JobMaker) -> JobMaker:
    """Jobs for launcher `mpi`."""

    def make(scenario: str, **options: Any) -> Job:
        job = make_job(scenario, **options)
        return dataclasses.replace(job, setting=dataclasses.replace(job.setting, launcher="mpi"))

    return make


def places(outcome: Outcome) -> list[tuple[int, int, int]]:
    assert statuses(outcome) == [RankStatus.RETURNED] * len(outcome.reports), outcome
    observations = [report.observation or {} for report in outcome.reports]
    assert all(each["told"] == [None] for each in observations)
    return [(each["rank"], each["size"], each["sum"]) for each in observations]


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_ask_mpi_who_they_are(mpi: MpiLibrary, pool: RankPool, make_mpi_job: JobMaker, world: int) -> None:
    first, second = (pool.run(make_mpi_job("tell_mpi_place", world=world)) for _ in range(2))
    expected = [(rank, world, sum(range(world))) for rank in range(world)]
    assert places(first) == places(second) == expected
    assert second.mode == "reused"


@pytest.mark.parametrize(
    ("how", "one", "code"),
    [
        ("raise", RankStatus.RAISED, 1),
        ("exit", RankStatus.DIED, 7),
        ("crash", RankStatus.DIED, -11),
        ("hang", RankStatus.TIMED_OUT, None),
    ],
)
def test_a_rank_that_fails_ends_its_set_in_seconds(
    mpi: MpiLibrary, pool: RankPool, make_mpi_job: JobMaker, how: str, one: RankStatus, code: int | None
) -> None:
    deadline = 3.0 if how == "hang" else 30.0
    outcome = pool.run(make_mpi_job("end_mpi_rank_1", parameters={"how": how}, deadline=deadline))
    assert outcome.harness_error is None
    zero = RankStatus.TIMED_OUT if how == "hang" else RankStatus.STOPPED
    assert statuses(outcome) == [zero, one]
    if sys.platform == "linux":
        assert outcome.reports[1].exit_code == code
    after = pool.run(make_mpi_job("tell_mpi_place"))
    assert after.mode == "prewarmed"
    assert places(after) == [(0, 2, 1), (1, 2, 1)]


def test_cold_ranks_end_well(mpi: MpiLibrary, make_mpi_job: JobMaker) -> None:
    pool = open_pool(mode="cold", launcher="mpi", mpi=mpi, preload=())
    try:
        outcome = pool.run(make_mpi_job("tell_mpi_place", environment={"MINE": "1"}))
        assert places(outcome) == [(0, 2, 1), (1, 2, 1)]
        assert [report.exit_code for report in outcome.reports] == [0, 0]
    finally:
        pool.close()


OUTER_JOB = {
    "HYDRA_HOST_FILE": "/no/such/hosts",
    "HYDRA_IFACE": "ib99",
    "HYDRA_LAUNCHER": "ssh",
    "I_MPI_HYDRA_HOST_FILE": "/no/such/hosts",
    "I_MPI_HYDRA_IFACE": "ib99",
    "I_MPI_HYDRA_BOOTSTRAP": "slurm",
    "I_MPI_PMI_LIBRARY": "/no/such/libpmi.so",
    "PRTE_MCA_prte_default_hostfile": "/no/such/hosts",
    "OMPI_MCA_orte_default_hostfile": "/no/such/hosts",
    "SLURM_JOBID": "7",
    "SLURM_NODELIST": "node[1-4]",
    "SLURM_NNODES": "4",
    "SLURM_TASKS_PER_NODE": "2(x4)",
    "PBS_ENVIRONMENT": "PBS_BATCH",
    "PBS_JOBID": "7.server",
    "PBS_NODEFILE": "/no/such/hosts",
    "LSB_MCPU_HOSTS": "node1 2 node2 2",
    "LSB_JOBID": "7",
    "PMI_RANK": "3",
    "PMI_SIZE": "8",
    "PMI_FD": "9",
    "PMIX_RANK": "3",
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "8",
}
"""A batch job's variables, and those of an mpiexec above the harness."""


def test_mpiexec_is_found_and_starts_ranks_here_whatever_job_is_around(
    mpi: MpiLibrary, make_mpi_job: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in OUTER_JOB.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(mpi_library.CHOICE, str(mpi.mpiexec))
    mpi_library.identify.cache_clear()
    pool = open_pool(mode="cold", launcher="mpi", mpi=mpi_library.find(), preload=())
    try:
        assert places(pool.run(make_mpi_job("tell_mpi_place"))) == [(0, 2, 1), (1, 2, 1)]
    finally:
        pool.close()


def test_an_mpiexec_that_fails_is_an_error_of_the_harness(mpi: MpiLibrary, make_mpi_job: JobMaker) -> None:
    pool = open_pool(mode="cold", launcher="mpi", mpi=mpi, python=["no-such-python"])
    try:
        outcome = pool.run(make_mpi_job("tell_mpi_place"))
        assert outcome.harness_error is not None
        assert outcome.seconds < 20.0
    finally:
        pool.close()


def test_a_launcher_without_its_mpi_is_refused() -> None:
    with pytest.raises(ValueError, match="launcher 'mpi' with mpi=None"):
        open_pool(launcher="mpi")
