"""What stays the same over all jobs of a pool of ranks."""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path

PACKAGE_ROOT = Path(__file__).resolve().parents[3]
START = Path(__file__).parents[1] / "inside" / "start.py"


@dataclasses.dataclass(frozen=True)
class PoolSettings:
    """What stays the same over all jobs of a pool.

    Attributes:
        python: the command that runs the interpreter of ranks.
        environment: what every process starts with, nothing of a launcher in it.
        preload: modules that ranks import ahead of their order.
        folder: an existing folder for the pool's own logs.
        passing: whether `folder` goes when the pool is closed.
    """

    python: tuple[str, ...]
    environment: dict[str, str]
    preload: tuple[str, ...]
    folder: Path
    passing: bool = False

    @property
    def rank_command(self) -> tuple[str, ...]:
        """The command that becomes a rank."""
        return (*self.python, "-P", str(START), "rank")

    @property
    def agent_command(self) -> tuple[str, ...]:
        """The command that becomes a agent."""
        return (*self.python, "-P", str(START), "agent")


def roots() -> tuple[str, ...]:
    """The folders that this process imports from, less those of its interpreter: where ranks find scenarios too."""
    return _roots(tuple(sys.path), Path.cwd())


@functools.lru_cache(maxsize=8)
def _roots(entries: tuple[str, ...], here: Path) -> tuple[str, ...]:
    own = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    found = [str(PACKAGE_ROOT)]
    for entry in entries:
        path = (here / entry).resolve()
        is_own = any(path.is_relative_to(prefix) for prefix in own) or path.suffix == ".zip"
        if path.is_dir() and not is_own and str(path) not in found:
            found.append(str(path))
    return tuple(found)
