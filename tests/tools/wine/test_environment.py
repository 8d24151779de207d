"""Commands, variables and places of an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.wine.environment import WineEnvironment, find_wine
from tools.wine.errors import WineError

ENVIRONMENT = WineEnvironment(Path("/srv/wine env"), Path("/usr/lib/wine/wine64"))
PYTHON = "Z:\\srv\\wine env\\python\\python.exe"
MPIEXEC = "Z:\\srv\\wine env\\python\\Library\\bin\\mpiexec.exe"


def test_python_is_the_environments_own() -> None:
    command = ENVIRONMENT.command(["python", "-m", "pytest", "--lane", "windows_gloo"])
    assert command == ["/usr/lib/wine/wine64", PYTHON, "-m", "pytest", "--lane", "windows_gloo"]


def test_mpiexec_gets_the_interpreters_path() -> None:
    command = ENVIRONMENT.command(["mpiexec", "-n", "2", "python", "-m", "mpi4py", Path("/srv/größe/ranks.py")])
    assert command[1:] == [MPIEXEC, "-n", "2", PYTHON, "-m", "mpi4py", "Z:\\srv\\größe\\ranks.py"]


def test_text_is_handed_on_as_it_is() -> None:
    words = ["reg", "add", 'say "yes"', "/f", "", "python"]
    assert ENVIRONMENT.command(words)[1:] == words


def test_a_path_as_the_program() -> None:
    assert ENVIRONMENT.command([Path("/srv/my tool.exe")])[1:] == ["Z:\\srv\\my tool.exe"]


def test_no_program_is_refused() -> None:
    with pytest.raises(WineError, match="found no program to run"):
        ENVIRONMENT.command([])


def test_paths_both_ways() -> None:
    assert ENVIRONMENT.windows(Path("/srv/a b")) == "Z:\\srv\\a b"
    assert ENVIRONMENT.windows(Path("here")) == ENVIRONMENT.windows(Path.cwd() / "here")
    assert ENVIRONMENT.linux("C:\\users\\x") == Path("/srv/wine env/prefix/drive_c/users/x")


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_a_cap_of_instruction_sets_that_the_user_has_set_is_kept(name: str) -> None:
    assert ENVIRONMENT.environ({name: "AVX2"})["ONEDNN_MAX_CPU_ISA"] == "AVX2"


def test_wine_gets_what_it_needs() -> None:
    variables = ENVIRONMENT.environ({})
    assert variables["WINEPREFIX"] == "/srv/wine env/prefix"
    assert variables["WINEARCH"] == "win64"
    assert variables["WINEDEBUG"] == "-all"
    assert variables["KMP_AFFINITY"] == "disabled"
    assert variables["I_MPI_FABRICS"] == "shm"
    assert variables["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_BF16"
    assert variables["LC_ALL"] == "C.UTF-8"
    assert variables["PYTHONPYCACHEPREFIX"] == "Z:\\srv\\wine env\\pycache"
    assert variables["WINEPATH"].split(";") == [
        "Z:\\srv\\wine env\\python",
        "Z:\\srv\\wine env\\python\\Scripts",
        "Z:\\srv\\wine env\\python\\Library\\bin",
    ]
    libraries = dict(item.rsplit("=", 1) for item in variables["WINEDLLOVERRIDES"].split(";"))
    assert "msvcp140" in next(names for names, order in libraries.items() if order == "n,b").split(",")
    assert libraries["winemenubuilder.exe"] == "d"


def test_what_is_linuxs_own_does_not_reach_windows() -> None:
    base = {
        "PYTHONPATH": "/srv/lib",
        "PYTHONDONTWRITEBYTECODE": "1",
        "VIRTUAL_ENV": "/srv/venv",
        "I_MPI_ROOT": "/opt/intel",
        "PMI_RANK": "3",
        "OMPI_COMM_WORLD_RANK": "1",
        "WINEPREFIX": "/home/me/.wine",
        "WINEDLLOVERRIDES": "ucrtbase=n",
        "LC_CTYPE": "de_DE",
        "DISPLAY": ":0",
        "CONFORMANCE_WINDOWS_PYTHON": "/srv/python",
    }
    variables = ENVIRONMENT.environ(base)
    for name, value in base.items():
        assert variables.get(name) != value


def test_the_callers_other_variables_do() -> None:
    base = {"DS_ACCELERATOR": "cpu", "PATH": "/usr/bin", "WINEDEBUG": "+relay", "PYTHONIOENCODING": "cp1252"}
    assert base.items() <= ENVIRONMENT.environ(base).items()


def test_wine_is_found_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "wine64"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_wine() == program


def test_no_wine_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tools.wine.environment.WINE_PLACES", ())
    with pytest.raises(WineError, match=r"found no wine64 .* apt-get install --no-install-recommends wine64"):
        find_wine()


def test_a_wine_that_was_named_must_be_a_program(tmp_path: Path) -> None:
    (tmp_path / "text").touch(mode=0o644)
    for path in (tmp_path / "text", tmp_path / "absent", tmp_path):
        with pytest.raises(WineError, match="found no program, expected wine64"):
            find_wine(path)
