"""Finding an MPI: in folders made up for Linux and Windows, and the real ones of this host."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from conformance.hosts import mpi_library
from conformance.hosts.mpi_library import Loaded, MpiLibrary
from conformance.model.verdict import NotRun
from conformance.reference.errors import MpiError
from tests.mpi.mpi_jobs import Starter

VERSIONS = {
    "impi": "Intel(R) MPI Library for Linux* OS, Version 2021.19.0 Build 20260929 (id: 1821d9b)\nCopyright 2003-2026",
    "impi on Windows": "Intel(R) MPI Library for Windows* OS, Version 2021.19.0 Build 20260929\nCopyright",
    "impi library": "Intel(R) MPI Library 2021.19.0 for Linux* OS\n\0",
    "mpich": "HYDRA build details:\n    Version:                                 5.0.2\n    Release Date: Fri Sep 25",
    "mpich library": "MPICH Version:      5.0.2\nMPICH Release date: Fri Sep 25 20:45:26 UTC 2026\nMPICH ABI: 18:2:6",
    "openmpi": "mpiexec (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/",
    "openmpi 4": "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/",
    "openmpi library": "Open MPI v5.0.11, package: Open MPI user@localhost Distribution, ident: 5.0.11",
    "msmpi": "Microsoft MPI Startup Program [Version 10.1.12498.18]\n\nLaunches an application on multiple hosts.",
    "msmpi library": "Microsoft MPI 10.1.12498.18",
}


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def made_up(
    vendor: str, version: str = "5.0.2", library: Path | None = Path("/opt/lib/libmpi.so"), **more: str
) -> MpiLibrary:
    return MpiLibrary(
        vendor,  # type: ignore[arg-type]
        version,
        Path(more.get("mpiexec", f"/opt/{vendor}/bin/mpiexec")),
        library,
        more.get("source", "path"),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("name", VERSIONS)
def test_recognises_what_each_says_of_itself(name: str) -> None:
    vendor, version = mpi_library.recognise(VERSIONS[name])
    assert vendor == name.split()[0]
    assert version in ("2021.19.0", "5.0.2", "5.0.11", "4.1.4", "10.1.12498.18")


def test_recognises_nothing_in_other_text() -> None:
    assert mpi_library.recognise("usage: mpiexec [-n N] program") == (None, "")


@pytest.mark.skipif(sys.platform == "win32", reason="PATH as Linux has it")
def test_linux_layouts(tmp_path: Path) -> None:
    venv, oneapi, system = tmp_path / "ein venv", tmp_path / "oneAPI", tmp_path / "usr" / "bin"
    touch(venv / "bin" / "mpiexec", venv / "lib" / "libmpi.so.12", oneapi / "bin" / "mpiexec", system / "mpiexec")
    touch(oneapi / "lib" / "release" / "libmpi.so.12")
    environ = {"I_MPI_ROOT": str(oneapi), "PATH": f"{venv / 'bin'}:{tmp_path / 'gone'}:{system}"}
    found = mpi_library.mpiexecs(environ, prefixes=[venv], wheels=[], windows=False)
    assert found == [
        (venv / "bin" / "mpiexec", "environment"),
        (oneapi / "bin" / "mpiexec", "variable"),
        (system / "mpiexec", "path"),
    ]
    assert mpi_library.library_beside(venv / "bin" / "mpiexec", "mpich") == venv / "lib" / "libmpi.so.12"
    assert mpi_library.library_beside(venv / "bin" / "mpiexec", "openmpi") is None
    assert mpi_library.library_beside(oneapi / "bin" / "mpiexec", "impi") == oneapi / "lib" / "release" / "libmpi.so.12"
    assert mpi_library.library_beside(system / "mpiexec", "openmpi") is None


def test_windows_layouts(tmp_path: Path) -> None:
    venv, ms, overlay = tmp_path / "Umgebung ü", tmp_path / "Microsoft MPI" / "Bin", tmp_path / "overlay"
    impi, wheel = venv / "Library" / "bin" / "mpiexec.exe", overlay / "Library" / "bin" / "mpiexec.exe"
    touch(impi, impi.with_name("impi.dll"), ms / "mpiexec.exe", wheel, venv / "Library" / "bin" / "mpiexec")
    environ = {"MSMPI_BIN": str(ms), "PATH": f'"{ms}";{venv / "Scripts"}'}
    found = mpi_library.mpiexecs(environ, prefixes=[venv], wheels=[wheel], windows=True)
    assert found == [(impi, "environment"), (wheel, "wheel"), (ms / "mpiexec.exe", "variable")]
    assert mpi_library.library_beside(impi, "impi") == impi.with_name("impi.dll")
    assert mpi_library.library_beside(ms / "mpiexec.exe", "msmpi") is None


class World:
    """A host made up of mpiexecs, and of what mpi4py loads there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, found: list[MpiLibrary], by_itself: Loaded | str) -> None:
        self.found = {mpi.mpiexec: mpi for mpi in found}
        self.by_itself = by_itself
        monkeypatch.setattr(mpi_library, "mpiexecs", lambda _: [(mpi.mpiexec, mpi.source) for mpi in found])
        monkeypatch.setattr(mpi_library, "identify", lambda mpiexec, _: self.found.get(mpiexec))
        monkeypatch.setattr(mpi_library, "load", self.load)

    def load(self, environ: dict[str, str], *, unset: str | None = None) -> Loaded | str:
        for mpi in self.found.values():
            if mpi.library is not None and environ.get("MPI4PY_LIBMPI") == str(mpi.library):
                return Loaded(mpi.vendor, mpi.version, f"{mpi.vendor} {mpi.version}")
        return self.by_itself


MPICH, OPENMPI = (
    made_up("mpich", library=Path("/opt/m/libmpi.so.12")),
    made_up("openmpi", "5.0.11", Path("/o/libmpi.so.40")),
)
LOADS_NOTHING = "RuntimeError: cannot load MPI library"


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py")
def test_an_mpi4py_without_a_library_says_what_it_raised_and_quotes_no_source(tmp_path: Path) -> None:
    environ = os.environ | {"MPI4PY_LIBMPI": str(tmp_path / "libmpi.so.12")}
    assert mpi_library.load(environ, unset="MPI4PY_MPIABI") == LOADS_NOTHING


def test_takes_the_one_that_mpi4py_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch, [MPICH, OPENMPI], Loaded("openmpi", "5.0.10", "Open MPI v5.0.10"))
    assert mpi_library.find({}) == OPENMPI


def test_takes_the_first_with_a_library_where_mpi4py_finds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch, [made_up("impi", library=None), MPICH, OPENMPI], LOADS_NOTHING)
    assert mpi_library.find({}) == MPICH


def test_an_explicit_choice_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch, [MPICH, OPENMPI], Loaded("mpich", "5.0.2", "MPICH 5.0.2"))
    assert mpi_library.find({"CONFORMANCE_MPI": "openmpi"}) == OPENMPI


def test_system_leaves_out_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch, [made_up("impi", source="environment"), MPICH], LOADS_NOTHING)
    assert mpi_library.find({"CONFORMANCE_MPI": "system"}) == MPICH


@pytest.mark.parametrize("choice", ["impi", "msmpi", "/nowhere/mpiexec"])
def test_a_choice_that_is_not_there_is_not_run(monkeypatch: pytest.MonkeyPatch, choice: str) -> None:
    World(monkeypatch, [MPICH], LOADS_NOTHING)
    with pytest.raises(NotRun) as caught:
        mpi_library.find({"CONFORMANCE_MPI": choice})
    named = str(Path(choice)) in caught.value.lacks
    assert named and "CONFORMANCE_MPI" in caught.value.lacks + caught.value.remedy


def test_no_mpi_is_not_run_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch, [], LOADS_NOTHING)
    with pytest.raises(NotRun, match="impi-rt"):
        mpi_library.find({})


def test_no_mpi4py_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_library.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(NotRun, match="pip install mpi4py"):
        mpi_library.find({})


def test_another_mpi_than_mpi4py_loads_is_refused_with_both_names(monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch, [OPENMPI], Loaded("mpich", "5.0.2", "MPICH Version: 5.0.2"))
    with pytest.raises(MpiError) as caught:
        mpi_library.find({})
    text = str(caught.value)
    assert "MPICH Version: 5.0.2" in text and "Open MPI 5.0.11" in text and "CONFORMANCE_MPI=openmpi" in text


def test_a_chosen_mpi_whose_library_mpi4py_cannot_load_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch, [made_up("impi", "2021.19.0", library=None)], Loaded("mpich", "5.0.2", "MPICH Version: 5.0.2"))
    with pytest.raises(MpiError, match=r"(?s)MPICH Version: 5\.0\.2.*Intel MPI 2021\.19\.0"):
        mpi_library.find({"CONFORMANCE_MPI": "impi"})
    World(monkeypatch, [made_up("impi", "2021.19.0", library=None)], LOADS_NOTHING)
    with pytest.raises(MpiError, match="cannot load MPI library"):
        mpi_library.find({"CONFORMANCE_MPI": "impi"})


def test_versions_may_differ_in_their_third_part_only() -> None:
    assert Loaded("openmpi", "5.0.10", "").is_of(OPENMPI)
    assert not Loaded("openmpi", "5.1.11", "").is_of(OPENMPI)
    assert not Loaded("mpich", "5.0.11", "").is_of(OPENMPI)


def test_the_environment_that_binds_mpi4py() -> None:
    intel = made_up("impi", library=Path("/i/lib/libmpi.so.12"))
    assert mpi_library.environment(intel, {}) == {
        "MPI4PY_MPIABI": None,
        "MPI4PY_LIBMPI": str(Path("/i/lib/libmpi.so.12")),
        "I_MPI_FABRICS": "shm",
        "I_MPI_PIN": "off",
    }
    assert mpi_library.environment(intel, {"I_MPI_FABRICS": "shm:ofi"})["I_MPI_FABRICS"] == "shm:ofi"
    assert mpi_library.environment(OPENMPI, {})["OPAL_PREFIX"] == str(Path("/opt/openmpi"))
    assert "MPI4PY_LIBMPI" not in mpi_library.environment(made_up("mpich", library=None), {})
    windows = made_up("impi", library=None, mpiexec="/v/Library/bin/mpiexec.exe")
    assert mpi_library.environment(windows, {"PATH": "rest"})["PATH"] == os.pathsep.join(
        [str(Path("/v/Library/bin")), "rest"]
    )


@pytest.mark.parametrize(
    ("vendor", "folder", "windows", "refused"),
    [
        ("impi", "C:/Users/Jörg/env/Library/bin", True, True),
        ("impi", "C:/Program Files/env/Library/bin", True, False),
        ("impi", "/home/jörg/env/bin", False, False),
        ("msmpi", "C:/Jörg/bin", True, False),
    ],
)
def test_intels_mpiexec_cannot_start_from_a_folder_beyond_ascii(
    vendor: mpi_library.Vendor, folder: str, windows: bool, refused: bool
) -> None:
    mpi = MpiLibrary(vendor, "2021.19.0", Path(folder, "mpiexec.exe"), None, "environment")
    if not refused:
        mpi_library.refuse_place(mpi, windows=windows)
        return
    with pytest.raises(NotRun, match="the path is not ASCII") as lack:
        mpi_library.refuse_place(mpi, windows=windows)
    assert "ASCII" in (lack.value.remedy or "")


@pytest.mark.parametrize(
    ("mpi", "options"),
    [
        (made_up("impi"), ["-bootstrap", "fork", "-print-all-exitcodes"]),
        (made_up("impi", mpiexec="/v/mpiexec.exe"), ["-localonly", "-print-all-exitcodes"]),
        (made_up("mpich"), ["-launcher", "fork", "-print-all-exitcodes"]),
        (made_up("openmpi"), ["--oversubscribe", "--bind-to", "none", "--stdin", "none"]),
        (made_up("msmpi", mpiexec="/v/mpiexec.exe"), []),
    ],
)
def test_launch_command(monkeypatch: pytest.MonkeyPatch, mpi: MpiLibrary, options: list[str]) -> None:
    monkeypatch.setattr(mpi_library, "_is_root", lambda: False)
    command = mpi_library.launch_command(mpi, 3, ["python", "a file.py"])
    assert command == [str(mpi.mpiexec), *options, "-n", "3", "python", "a file.py"]


def test_open_mpi_must_be_told_to_run_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_library, "_is_root", lambda: True)
    assert "--allow-run-as-root" in mpi_library.launch_command(OPENMPI, 2, ["x"])
    assert "--allow-run-as-root" not in mpi_library.launch_command(MPICH, 2, ["x"])


def test_no_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one rank"):
        mpi_library.launch_command(MPICH, 0, ["x"])


def test_a_program_that_is_no_mpiexec_is_not_one() -> None:
    assert mpi_library.identify(Path(sys.executable), "path") is None
    assert mpi_library.identify(Path("/nowhere/mpiexec"), "path") is None


def test_the_mpi_of_this_host(start: Starter) -> None:
    """Chosen by name and by path; mpi4py then loads its library, in the ranks too, and they form one world."""
    mpi = start.mpi
    environ = {**os.environ, "PATH": os.pathsep.join([str(mpi.mpiexec.parent), os.environ.get("PATH", "")])}
    assert mpi_library.find({**environ, "CONFORMANCE_MPI": mpi.vendor}).vendor == mpi.vendor
    assert mpi_library.find({**environ, "CONFORMANCE_MPI": str(mpi.mpiexec)}).mpiexec == mpi.mpiexec
    ask = "from mpi4py import MPI; print((MPI.COMM_WORLD.size, MPI.Get_library_version()), flush=True)"
    ended = start(2, ["-c", ask])
    assert ended.code == 0, ended.output
    assert mpi_library.recognise(ended.output)[0] == mpi.vendor
    assert ended.output.count("(2, ") == 2, ended.output


def test_a_variable_that_would_stop_mpi4py_is_unset(start: Starter) -> None:
    if start.mpi.library is None:
        pytest.skip("needs an MPI with its library beside it")
    environ = {**os.environ, "MPI4PY_MPIABI": "openmpi" if start.mpi.vendor != "openmpi" else "mpich"}
    assert mpi_library.find({**environ, "CONFORMANCE_MPI": str(start.mpi.mpiexec)}).vendor == start.mpi.vendor
