"""One file that replays a cell as the harness runs it: a zip archive with the harness in it, which Python can run."""

from __future__ import annotations

import dataclasses
import json
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from conformance.matrix.lane import Lane
from conformance.model.cell import Cell

ROOT: Final = Path(__file__).resolve().parents[2]
PACKED: Final = ("conformance", "reports", "matrices", "pyproject.toml", "LICENSE")
"""What a run needs of the checkout."""

LEFT_OUT: Final = ("__pycache__", "published")
"""What it does not need: compiled files, and the records of other runs."""

EXTRA: Final = "harness"


@dataclasses.dataclass(frozen=True)
class Replay:
    """A cell as one run has it."""

    cell: Cell
    lane: Lane
    transport: str
    integration: str

    @property
    def words(self) -> list[str]:
        """The command line of `python -m conformance` that runs it; a known issue's failure is a failure there."""
        return [
            "run",
            *("--lane", self.lane.name),
            *("--transport", self.transport),
            *("--integration", self.integration),
            *("--cell", self.cell.id),
            "--no-known-issues",
        ]


def pack(replay: Replay, file: Path) -> Path:
    """Write the archive; returns its path.

    Raises:
        OSError: a file cannot be read or written; for instance since this is no checkout.
    """
    told = {"words": replay.words, "needs": distributions(ROOT / "pyproject.toml", replay.integration)}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(Path(__file__).with_name("replay.py"), "__main__.py")
        archive.writestr("replay.json", json.dumps(told))
        for path in _files():
            archive.write(path, f"harness/{path.relative_to(ROOT).as_posix()}")
    return file


def _files() -> Iterator[Path]:
    for name in PACKED:
        place = ROOT / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if not path.is_dir() and not set(LEFT_OUT) & set(path.relative_to(ROOT).parts):
                yield path


def distributions(pyproject: Path, integration: str) -> list[str]:
    """What must be installed: the project's dependencies, those of the extra `harness`, and the integration's."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    found: dict[str, None] = {}
    waiting = [*project["dependencies"], *extras[EXTRA], *extras.get(integration, [])]
    while waiting:
        wanted = Requirement(waiting.pop(0))
        if wanted.name == project["name"]:
            waiting += [each for extra in sorted(wanted.extras) for each in extras[extra]]
        elif wanted.marker is None or wanted.marker.evaluate():
            found[wanted.name] = None
    return sorted(found)
