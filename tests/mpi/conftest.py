"""Each MPI of this host in turn."""

from __future__ import annotations

import pytest

from tests.mpi.mpi_jobs import NONE, Starter, available


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "start" in metafunc.fixturenames:
        found = [pytest.param(mpi, id=mpi.vendor) for mpi in available()]
        missing = pytest.param(None, id="none", marks=pytest.mark.skip(reason=NONE))
        metafunc.parametrize("start", found or [missing], indirect=True, scope="session")


@pytest.fixture(scope="session")
def start(request: pytest.FixtureRequest) -> Starter:
    """Starts ranks with one MPI of this host; the tests run with each."""
    return Starter(request.param)
