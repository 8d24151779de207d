"""A Windows environment on disk, and what starts programs in it."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from tools.wine.errors import WineError
from tools.wine.paths import to_linux, to_windows

FOLDER_VARIABLE: Final = "CONFORMANCE_WINE_ENV"
"""Names an environment that `make` built."""

PYTHON_VARIABLE: Final = "CONFORMANCE_WINDOWS_PYTHON"
"""Names a folder with a Windows CPython, to build environments from."""

MSVC: Final = "concrt140,msvcp140,msvcp140_1,msvcp140_2,msvcp140_atomic_wait,vcruntime140,vcruntime140_1"
NEVER_LOADED: Final = ("winedbg.exe", "winemenubuilder.exe", "mscoree", "mshtml")

OVERRIDES: Final = ";".join([f"{MSVC}=n,b", *(f"{name}=d" for name in NEVER_LOADED)])
"""Microsoft's C++ runtime instead of Wine's, in whose locks gloo dies; no debugger, menus, .NET or browser."""

DROPPED: Final = frozenset(
    {
        "CONDA_PREFIX",
        "DISPLAY",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONEXECUTABLE",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONPYCACHEPREFIX",
        "PYTHONSTARTUP",
        "PYTHONUSERBASE",
        "VIRTUAL_ENV",
        "WAYLAND_DISPLAY",
        FOLDER_VARIABLE,
        PYTHON_VARIABLE,
    }
)
DROPPED_PREFIXES: Final = ("FI_", "HYDRA_", "I_MPI_", "MPI_", "OMPI_", "PMI_", "PMIX_", "PRTE_", "WINE")
"""What holds Linux paths or belongs to a Linux MPI or another Wine; a Windows program would take it for its own."""

ONEDNN_CAP: Final = "AVX512_CORE_BF16"
"""The most that oneDNN may use: CPUID shows AMX to it, but Wine never asks the kernel for the tile registers, and
without them each of AMX's instructions ends the process (0xc000001d)."""

WINE_PLACES: Final = ("/usr/lib/wine/wine64", "/usr/lib64/wine/wine64", "/opt/wine-stable/bin/wine64")
"""Where wine64 lies when it is not on PATH, as with Debian's package of that name alone."""


@dataclasses.dataclass(frozen=True)
class WineEnvironment:
    """A Windows environment, there or not.

    Attributes:
        folder: its root; absolute.
        wine: the program that runs Windows programs.
    """

    folder: Path
    wine: Path

    @property
    def home(self) -> Path:
        """Where the Windows Python lies, laid out as on Windows: python.exe, Lib, Scripts, Library."""
        return self.folder / "python"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.home / "python.exe"

    @property
    def mpiexec(self) -> Path:
        """Intel MPI's launcher, which comes with the wheel impi-rt."""
        return self.home / "Library" / "bin" / "mpiexec.exe"

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        return self.home / "Lib" / "site-packages"

    @property
    def prefix(self) -> Path:
        """Wine's own folder: drive C: and the registry."""
        return self.folder / "prefix"

    @property
    def cache(self) -> Path:
        """Its compiled Python: the usual places would be shared with Linux's Python, whose paths differ."""
        return self.folder / "pycache"

    def windows(self, path: Path) -> str:
        """The path as programs in the environment see it.

        Raises:
            WineError: it holds a name that Windows cannot have.
        """
        return to_windows(PurePosixPath(path.absolute()))

    def linux(self, text: str) -> Path:
        """The Linux path of one that a program in the environment wrote.

        Raises:
            WineError: it is relative or on an unknown drive.
        """
        return to_linux(text, self.prefix)

    def command(self, argv: Sequence[str | os.PathLike[str]]) -> list[str]:
        r"""The command, on Linux, that runs a Windows program.

        Its standard input must be /dev/null and its output a pipe (see `runner`): Wine 8 refuses plain files.

        Args:
            argv: the program and its arguments. `python` and `mpiexec` are the environment's own, also where they are
                arguments of that `mpiexec`; another program is one of Wine's, or a path. A `Path` is written as Windows
                names it (`Z:\…`); text is handed on as it is.

        Raises:
            WineError: there is no program, or a path that Windows cannot name.
        """
        if not argv:
            raise WineError("found no program to run, expected one such as: python -m pytest")
        program, *arguments = [word if isinstance(word, str) else self.windows(Path(word)) for word in argv]
        own = {"python": self.python, "mpiexec": self.mpiexec}
        if program == "mpiexec":  # It finds programs by path only.
            arguments = [self.windows(self.python) if word == "python" else word for word in arguments]
        return [str(self.wine), self.windows(own[program]) if program in own else program, *arguments]

    def environ(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """All variables for such a command.

        Args:
            base: those to start from, by default this process's. `WINEDEBUG`, `KMP_AFFINITY`, `I_MPI_FABRICS`,
                `ONEDNN_MAX_CPU_ISA` (or `DNNL_MAX_CPU_ISA`) and `PYTHONIOENCODING` are taken from there;
                `I_MPI_FABRICS` other than shm needs a libfabric.dll.

        Raises:
            WineError: the environment's folder is one that Windows cannot name.
        """
        base = os.environ if base is None else base
        kept = {
            name: value
            for name, value in base.items()
            if name not in DROPPED and not name.startswith(DROPPED_PREFIXES) and not name.startswith("LC_")
        }
        programs = (self.home, self.home / "Scripts", self.mpiexec.parent)
        return {
            **kept,
            "LC_ALL": "C.UTF-8",  # How Wine reads names and arguments; Windows' own code page is then 1252.
            "WINEPREFIX": str(self.prefix),
            "WINEARCH": "win64",
            "WINEDEBUG": base.get("WINEDEBUG", "-all"),
            "WINEDLLOVERRIDES": OVERRIDES,
            "WINEPATH": ";".join(self.windows(folder) for folder in programs),
            "KMP_AFFINITY": base.get("KMP_AFFINITY", "disabled"),  # It would start with a NUMA call that Wine lacks.
            "I_MPI_FABRICS": base.get("I_MPI_FABRICS", "shm"),
            "ONEDNN_MAX_CPU_ISA": base.get("ONEDNN_MAX_CPU_ISA") or base.get("DNNL_MAX_CPU_ISA") or ONEDNN_CAP,
            "PYTHONIOENCODING": base.get("PYTHONIOENCODING", "utf-8"),
            "PYTHONPYCACHEPREFIX": self.windows(self.cache),
        }


def find_wine(asked: Path | None = None) -> Path:
    """The program that runs 64-bit Windows programs.

    Args:
        asked: where it is; by default it is looked for on PATH and where distributions put it.

    Raises:
        WineError: it is not there.
    """
    if asked is not None:
        if not os.access(asked, os.X_OK) or not asked.is_file():
            raise WineError(f"--wine {asked}: found no program, expected wine64")
        return asked.absolute()
    for name in ("wine64", *WINE_PLACES, "wine"):
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise WineError(
        f"found no wine64 on PATH or at {', '.join(WINE_PLACES)}; "
        "install it (Debian: apt-get install --no-install-recommends wine64) or name it with --wine"
    )
