"""Builds a Windows environment: Python, wheels, and a Wine prefix."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout
from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile
from packaging.utils import InvalidWheelFilename, NormalizedName, parse_wheel_filename
from packaging.version import Version

from tools.wine import requirements as requirements_file
from tools.wine import runner
from tools.wine.doctor import examine
from tools.wine.environment import WineEnvironment, find_wine
from tools.wine.errors import WineError
from tools.wine.interpreter import VERSION, check_interpreter
from tools.wine.requirements import BUILD_OPTION, Requirements, read_requirements
from tools.wine.stamp import FILE_NAME, SITE_FILE, Stamp, read_stamp, stamp_for

INSTALLER: Final = "tools.wine"
LOCK: Final = "wine.lock"
PREFIX_SECONDS: Final = 300.0

PREFIX_COMMANDS: Final = (
    ("wineboot", "-i"),
    ("reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f"),
)
"""A prefix as Wine makes it, then Windows 10 instead of the older one that Wine 8 passes itself off as."""

Say = Callable[[str], None]


def make(
    interpreter: Path,
    folder: Path,
    *,
    requirements: Path = requirements_file.FILE,
    wine: Path | None = None,
    say: Say = print,
) -> WineEnvironment:
    """Build the environment in `folder`, unless it is there and was made from the same.

    It takes 2 minutes and 2 GB. Wheels come from where pip is set up to take them. Two processes may ask at once.

    Args:
        interpreter: a folder with an unpacked Windows CPython 3.11; it is copied.
        folder: where the environment is to be; outside of a source tree.
        requirements: exact pins of all distributions.
        wine: the program wine64; by default it is looked for.
        say: told what is going on, a line at a time.

    Raises:
        WineError: something that it needs is not there, or the environment does not work.
    """
    program = find_wine(wine)
    environment = WineEnvironment(folder.absolute(), program)
    wanted = read_requirements(requirements)
    check_folder(environment, wanted)
    source = check_interpreter(interpreter)
    expected = stamp_for(environment.folder, source, wanted, wine_version(program))
    with _alone(environment.folder, say):
        differences = expected.differences(read_stamp(environment.folder))
        if not differences:
            say(f"{environment.folder}: is there")
            return environment
        _clear(environment)
        say(f"{environment.folder}: making it ({', '.join(differences)})")
        _build(environment, source, wanted, expected, say)
    return environment


def open_environment(folder: Path, wine: Path | None = None) -> WineEnvironment:
    """The environment that `make` finished in `folder`.

    Raises:
        WineError: there is none, or no Wine.
    """
    folder = folder.absolute()
    stamp = read_stamp(folder)
    if stamp is not None and stamp.finished and stamp.folder == str(folder):
        return WineEnvironment(folder, find_wine(wine))
    if stamp is None:
        state = f"no {FILE_NAME}"
    else:
        state = f"one made in {stamp.folder}" if stamp.finished else "one that is not finished"
    raise WineError(
        f"{folder}: found {state}, expected an environment; "
        f"make it with: python -m tools.wine make --python FOLDER --into {folder}"
    )


def wine_version(program: Path) -> str:
    """What Wine says of its version, such as `wine-8.0 (Debian 8.0~repack-4)`.

    Raises:
        WineError: it does not start.
    """
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, timeout=60, encoding="utf-8", errors="replace"
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise WineError(f"{program} --version: {error}; reinstall wine64 or name another with --wine") from None
    if answer.returncode != 0 or not answer.stdout.startswith("wine-"):
        text = (answer.stdout + answer.stderr).strip()[-500:]
        raise WineError(f"{program} --version: found exit code {answer.returncode} and {text!r}, expected wine-…")
    return answer.stdout.strip()


def _build(environment: WineEnvironment, interpreter: Path, requirements: Requirements, stamp: Stamp, say: Say) -> None:
    folder = environment.folder
    dataclasses.replace(stamp, finished=False).write(folder)
    shutil.copytree(interpreter, environment.home, ignore=lambda at, names: left_out(interpreter, Path(at), names))
    say(f"fetching {len(requirements.pins)} distributions")
    wheels = folder / "wheels"
    for wheel in fetch(requirements, wheels):
        _install(wheel, environment)
    shutil.rmtree(wheels)
    shutil.copyfile(SITE_FILE, environment.packages / SITE_FILE.name)
    say("making the Wine prefix")
    for argv in PREFIX_COMMANDS:
        finished = runner.capture(environment, argv, timeout=PREFIX_SECONDS, cwd=folder)
        if finished.code != 0:
            code = f"after {PREFIX_SECONDS:.0f} s no end" if finished.code is None else f"exit code {finished.code}"
            raise WineError(
                f"wine64 {' '.join(argv)}: found {code}, expected exit code 0: {finished.text[-500:].strip()}"
            )
    say("trying it out")
    failures = [finding for finding in examine(environment, requirements) if not finding.ok]
    if failures:
        raise WineError("\n".join([f"{folder}: the environment does not work", *map(str, failures)]))
    stamp.write(folder)
    say(f"{folder}: is ready")


def left_out(interpreter: Path, at: Path, names: Sequence[str]) -> set[str]:
    """Which of the `names` in the folder `at` of an interpreter are not copied: what others installed, and caches."""
    if at == interpreter:
        return {"Scripts", "Library"} & set(names)
    if at == interpreter / "Lib":
        return {"site-packages", "__pycache__"} & set(names)
    return {"__pycache__"} & set(names)


def pip_commands(requirements: Requirements, wheels: Path) -> list[list[str]]:
    """The commands that bring wheels for Windows into the folder `wheels`. Pure.

    Nothing is resolved: pip would evaluate the markers of dependencies for the Linux that it runs on.
    """
    ready = [str(pin) for pin in requirements.pins if pin.name not in requirements.built]
    built = [str(pin) for pin in requirements.pins if pin.name in requirements.built]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    tags = [f"--abi={abi}" for abi in (f"cp{VERSION[0]}{VERSION[1]}", "abi3", "none")]
    commands = []
    if ready:
        python = ["--platform=win_amd64", f"--python-version={VERSION[0]}.{VERSION[1]}", "--implementation=cp", *tags]
        commands.append([*pip, "download", "--no-deps", "--only-binary=:all:", *python, f"--dest={wheels}", *ready])
    if built:
        names = ",".join(sorted(requirements.built))
        commands.append([*pip, "wheel", "--no-deps", BUILD_OPTION, names, f"--wheel-dir={wheels}", *built])
    return commands


def fetch(requirements: Requirements, wheels: Path) -> list[Path]:
    """Bring wheels for Windows, one for each pin, into the folder `wheels`.

    Raises:
        WineError: there is no pip, a distribution cannot be had, or a built one is not pure Python.
    """
    if importlib.util.find_spec("pip") is None:
        raise WineError(f"{sys.executable}: found no pip, expected one; install it with: python -m ensurepip")
    wheels.mkdir(parents=True, exist_ok=True)
    for command in pip_commands(requirements, wheels):
        # DeepSpeed compiles its ops unless told not to; such a wheel would be one for Linux.
        answer = subprocess.run(
            command,
            env={**os.environ, "DS_BUILD_OPS": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        if answer.returncode != 0:
            raise WineError(f"pip {command[4]}: exit code {answer.returncode}:\n{answer.stdout.strip()[-2000:]}")
    found = {}
    for path in sorted(wheels.glob("*.whl")):
        name, version, platforms = _parsed(path)
        if name in requirements.built and platforms != {"any"}:
            raise WineError(f"{path.name}: built for {', '.join(sorted(platforms))}, expected a wheel of pure Python")
        found[name] = (version.public, path)
    lacking = [str(pin) for pin in requirements.pins if found.get(pin.name, ("",))[0] != pin.version.public]
    if lacking:
        raise WineError(f"{wheels}: found no wheels of {', '.join(lacking)} among what pip brought")
    return [found[pin.name][1] for pin in requirements.pins]


def _parsed(path: Path) -> tuple[NormalizedName, Version, set[str]]:
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise WineError(f"{path}: {error}") from None
    return name, version, {tag.platform for tag in tags}


def _install(wheel: Path, environment: WineEnvironment) -> None:
    """Unpack a wheel to where Windows has its parts, with Windows' launchers for its programs."""
    schemes = {
        "purelib": environment.packages,
        "platlib": environment.packages,
        "headers": environment.home / "Include",
        "scripts": environment.home / "Scripts",
        "data": environment.home,
    }
    destination = SchemeDictionaryDestination(
        {name: str(folder) for name, folder in schemes.items()},
        interpreter=environment.windows(environment.python),
        script_kind="win-amd64",
        overwrite_existing=True,
    )
    with WheelFile.open(wheel) as source, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Skip installing .*__pycache__", RuntimeWarning)  # Compiled files in a wheel.
        install(source, destination, additional_metadata={"INSTALLER": INSTALLER.encode()})


def check_folder(environment: WineEnvironment, requirements: Requirements) -> None:
    """Refuse a place where an environment cannot be, or that holds something else.

    Raises:
        WineError: Windows or Intel MPI cannot name the folder, or there is a file or another thing's folder.
    """
    folder = environment.folder
    environment.windows(folder)
    if not str(folder).isascii() and any(pin.name == "impi-rt" for pin in requirements.pins):
        letter = next(letter for letter in str(folder) if not letter.isascii())
        raise WineError(
            f"{folder}: found {letter!r}, expected plain ASCII: "
            "Intel MPI's mpiexec.exe does not start from a path with other letters; choose another folder"
        )
    if folder.exists() and not folder.is_dir():
        raise WineError(f"{folder}: found a file, expected a folder that is empty or not there")
    if not folder.exists() or (folder / FILE_NAME).exists():
        return
    foreign = sorted(path.name for path in folder.iterdir() if path.name != LOCK)
    if foreign:
        raise WineError(f"{folder}: found {foreign[0]!r} in it, expected a folder that is empty or not there")


def _clear(environment: WineEnvironment) -> None:
    for path in (environment.home, environment.prefix, environment.cache, environment.folder / "wheels"):
        if path.exists():
            shutil.rmtree(path)


@contextlib.contextmanager
def _alone(folder: Path, say: Say) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0.1)
    except Timeout:
        say(f"{folder}: waiting for another process that makes it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
