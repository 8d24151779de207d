"""Building an environment, as far as it goes without Wine."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.wine.build import LOCK, _install, check_folder, fetch, left_out, make, open_environment, pip_commands
from tools.wine.environment import WineEnvironment
from tools.wine.errors import WineError
from tools.wine.interpreter import MACHINE_X86_64
from tools.wine.requirements import Requirements, read_requirements
from tools.wine.stamp import Stamp, read_stamp, stamp_for

StandIn = Callable[..., WineEnvironment]


def _requirements(tmp_path: Path, text: str) -> Requirements:
    path = tmp_path / "pins.txt"
    path.write_text(text, encoding="utf-8")
    return read_requirements(path)


def _wheel(folder: Path, name: str, tag: str, files: dict[str, str]) -> Path:
    """A wheel of version 1 of `name` with these files."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1-{tag}.whl"
    info = f"{name}-1.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in content.items():
            archive.writestr(member, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{member},,\n" for member in [*content, f"{info}/RECORD"]))
    return path


def test_pip_is_asked_for_windows_wheels_and_resolves_nothing(tmp_path: Path) -> None:
    download, build = pip_commands(_requirements(tmp_path, "--no-binary b\na==1\nb==2\nc==3\n"), tmp_path / "to")
    assert download[3:5] == ["--disable-pip-version-check", "download"]
    assert {"--no-deps", "--only-binary=:all:", "--platform=win_amd64", "--python-version=3.11"} <= set(download)
    assert download[-2:] == ["a==1", "c==3"]
    assert build[4:8] == ["wheel", "--no-deps", "--no-binary", "b"]
    assert build[-1] == "b==2"


def test_wheels_come_in_the_order_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, tag in (("alpha", "py3-none-any"), ("beta", "cp311-cp311-win_amd64"), ("gamma", "cp39-abi3-win_amd64")):
        _wheel(tmp_path / "index", name, tag, {f"{name}.py": ""})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    wheels = fetch(_requirements(tmp_path, "gamma==1\nbeta==1\nalpha==1\n"), tmp_path / "wheels")
    assert [wheel.name.partition("-")[0] for wheel in wheels] == ["gamma", "beta", "alpha"]


@pytest.mark.parametrize("tag", ["cp311-cp311-manylinux_2_28_x86_64", "cp312-cp312-win_amd64", "cp311-cp311-win32"])
def test_a_wheel_for_another_system_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str) -> None:
    _wheel(tmp_path / "index", "alpha", tag, {"alpha.py": ""})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    with pytest.raises(WineError, match=r"(?s)pip download: exit code 1:.*alpha==1"):
        fetch(_requirements(tmp_path, "alpha==1\n"), tmp_path / "wheels")


def test_a_wheel_that_was_built_for_linux_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _wheel(tmp_path / "wheels", "alpha", "cp311-cp311-linux_x86_64", {"alpha.py": ""})
    monkeypatch.setattr("tools.wine.build.pip_commands", lambda requirements, wheels: [])
    with pytest.raises(WineError, match=r"built for linux_x86_64, expected a wheel of pure Python"):
        fetch(_requirements(tmp_path, "--no-binary alpha\nalpha==1\n"), tmp_path / "wheels")


def test_a_wheel_that_did_not_come_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.wine.build.pip_commands", lambda requirements, wheels: [])
    with pytest.raises(WineError, match=r"found no wheels of alpha==1, beta==2"):
        fetch(_requirements(tmp_path, "alpha==1\nbeta==2\n"), tmp_path / "wheels")


def test_a_wheels_parts_go_where_windows_has_them(tmp_path: Path) -> None:
    environment = WineEnvironment(tmp_path / "wine env", tmp_path / "wine64")
    files = {
        "alpha.py": "x = 1\n",
        "alpha-1.data/data/Library/bin/alpha.dll": "beside programs",
        "alpha-1.data/data/runtime140.dll": "beside python.exe",
        "alpha-1.data/scripts/tool.exe": "a program",
        "alpha-1.dist-info/entry_points.txt": "[console_scripts]\nalpha = alpha:main\n",
    }
    _install(_wheel(tmp_path, "alpha", "py3-none-any", files), environment)
    assert (environment.packages / "alpha.py").read_text(encoding="utf-8") == "x = 1\n"
    assert (environment.home / "Library" / "bin" / "alpha.dll").is_file()
    assert (environment.home / "runtime140.dll").is_file()
    assert (environment.home / "Scripts" / "tool.exe").is_file()
    launcher = (environment.home / "Scripts" / "alpha.exe").read_bytes()
    assert launcher.startswith(b"MZ")
    assert environment.windows(environment.python).encode() in launcher
    record = (environment.packages / "alpha-1.dist-info" / "RECORD").read_text(encoding="utf-8")
    assert "../../Library/bin/alpha.dll" in record


def test_what_others_installed_into_the_interpreter_is_not_copied(tmp_path: Path) -> None:
    assert left_out(tmp_path, tmp_path, ["python.exe", "Lib", "Scripts"]) == {"Scripts"}
    assert left_out(tmp_path, tmp_path / "Lib", ["os.py", "site-packages", "__pycache__"]) == {
        "site-packages",
        "__pycache__",
    }
    assert left_out(tmp_path, tmp_path / "Lib" / "json", ["site-packages", "__pycache__"]) == {"__pycache__"}


def test_a_folder_that_holds_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("kept", encoding="utf-8")
    with pytest.raises(WineError, match=r"found 'thesis.txt' in it, expected a folder that is empty"):
        check_folder(WineEnvironment(folder, Path("wine64")), read_requirements())
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WineError, match="found a file"):
        check_folder(WineEnvironment(tmp_path / "file", Path("wine64")), read_requirements())


def test_letters_that_mpiexec_cannot_start_from_are_refused(tmp_path: Path) -> None:
    environment = WineEnvironment(tmp_path / "größe", Path("wine64"))
    with pytest.raises(WineError, match=r"found 'ö', expected plain ASCII"):
        check_folder(environment, read_requirements())
    check_folder(environment, _requirements(tmp_path, "numpy==1.26.4\n"))


def test_an_empty_folder_and_a_half_made_one_are_taken(tmp_path: Path) -> None:
    environment = WineEnvironment(tmp_path / "env", Path("wine64"))
    environment.folder.mkdir()
    (environment.folder / LOCK).touch()
    check_folder(environment, read_requirements())
    Stamp(str(environment.folder), "", "", "", "", finished=False).write(environment.folder)
    (environment.folder / "python").mkdir()
    check_folder(environment, read_requirements())


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    folder = tmp_path / "interpreter"
    (folder / "Lib").mkdir(parents=True)
    (folder / "Lib" / "os.py").touch()
    head = b"MZ" + bytes(0x3A) + (0x80).to_bytes(4, "little")
    (folder / "python.exe").write_bytes(head.ljust(0x80, b"\0") + b"PE\0\0" + MACHINE_X86_64.to_bytes(2, "little"))
    (folder / "python311.dll").touch()
    return folder


def test_an_environment_made_from_the_same_is_left_alone(interpreter: Path, stand_in: StandIn) -> None:
    environment = stand_in()
    requirements = read_requirements()
    stamp_for(environment.folder, interpreter, requirements, "wine-8.0 (stand-in)").write(environment.folder)
    said: list[str] = []
    assert make(interpreter, environment.folder, wine=environment.wine, say=said.append) == environment
    assert said == [f"{environment.folder}: is there"]


def test_a_failure_leaves_an_environment_that_nobody_takes_for_a_finished_one(
    interpreter: Path, stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _wheel(tmp_path / "index", "alpha", "py3-none-any", {"alpha.py": ""})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    _requirements(tmp_path, "alpha==1\n")
    environment = stand_in("print('no such thing'); sys.exit(3)")
    stale = environment.home / "stale.txt"
    stale.touch()
    with pytest.raises(WineError, match=r"wine64 wineboot -i: found exit code 3, expected exit code 0: no such thing"):
        make(
            interpreter,
            environment.folder,
            requirements=tmp_path / "pins.txt",
            wine=environment.wine,
            say=lambda text: None,
        )
    assert (environment.packages / "alpha.py").exists()
    assert not stale.exists()
    stamp = read_stamp(environment.folder)
    assert stamp is not None
    assert not stamp.finished
    with pytest.raises(WineError, match="found one that is not finished"):
        open_environment(environment.folder, environment.wine)


def test_only_a_finished_environment_in_its_place_is_opened(stand_in: StandIn, tmp_path: Path) -> None:
    environment = stand_in()
    assert open_environment(environment.folder, environment.wine) == environment
    with pytest.raises(WineError, match=r"found no wine\.json.*make it with: python -m tools\.wine make"):
        open_environment(tmp_path / "absent", environment.wine)
    moved = environment.folder.rename(tmp_path / "moved")
    with pytest.raises(WineError, match=f"found one made in {environment.folder}"):
        open_environment(moved, environment.wine)
