"""One file that replays a cell as the harness runs it: a zip archive with the harness in it, which Python can run."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path

from conformance.matrix.lane import Lane
from conformance.model.cell import Cell

ROOT = Path(__file__).resolve().parents[2]
PACKED = ("conformance", "reports", "matrices", "pyproject.toml", "LICENSE")
"""What a run needs of the checkout. reports/published, the records of other runs, it does not need."""

LEFT_OUT = ("__pycache__", "published")


@dataclasses.dataclass(frozen=True)
class Replay:
    """A cell as one run has it."""

    cell: Cell
    lane: Lane
    transport: str
    integration: str

    @property
    def words(self) -> list[str]:
        """The command line of `python -m conformance` that runs it."""
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
        OSError: a file cannot be read or written.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(Path(__file__).with_name("replay.py"), "__main__.py")
        archive.writestr("replay.json", json.dumps({"words": replay.words, "cell": replay.cell.id}))
        for name in PACKED:
            for path in sorted((ROOT / name).rglob("*")) if (ROOT / name).is_dir() else [ROOT / name]:
                if path.is_file() and not set(LEFT_OUT) & set(path.relative_to(ROOT).parts):
                    archive.write(path, f"harness/{path.relative_to(ROOT).as_posix()}")
    return file
