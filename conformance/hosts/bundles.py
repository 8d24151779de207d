"""Bundles of checkpoints that one lane hands to another: --export-checkpoints and --import-checkpoints.

DIR/LANE/stage=2,dtype=fp32/ holds a DeepSpeed checkpoint of two ranks and, in `promise.RANK.json`, what must be found
after loading.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from conformance.model.setting import Axes
from conformance.model.verdict import NotRun

CHECKPOINT = "checkpoint"


@dataclasses.dataclass(frozen=True)
class Bundles:
    """Where a run's bundles go and come from.

    Attributes:
        export: DIR/LANE of this run, absolute; None where it exports none.
        imported: the folder DIR that other lanes' exports were gathered in, absolute; None where it imports none.
    """

    export: Path | None = None
    imported: Path | None = None

    @classmethod
    def of_options(cls, export: str | None, imported: str | None, lane: str) -> Bundles:
        """What the two options say of a run of `lane`."""
        return cls(
            None if export is None else Path(export).resolve() / lane,
            None if imported is None else Path(imported).resolve(),
        )

    def own(self, axes: Axes) -> Path:
        """The folder that this run exports a cell's checkpoint into.

        Raises:
            NotRun: it exports none.
        """
        return self.of_this_run() / _name(axes)

    def of_this_run(self) -> Path:
        """The folder that this run exports into.

        Raises:
            NotRun: it exports nothing.
        """
        if self.export is None:
            raise NotRun("a folder to export checkpoints to", "give --export-checkpoints DIR")
        return self.export

    def of_lane(self, lane: str) -> Path:
        """The folder of what `lane` exported.

        Raises:
            NotRun: it left nothing where this run imports from.
        """
        if self.imported is None or not (self.imported / lane).is_dir():
            raise NotRun(
                f"checkpoints that {lane} has exported",
                f"run {lane} with --export-checkpoints DIR, then this with --import-checkpoints DIR",
            )
        return self.imported / lane

    def foreign(self, axes: Axes) -> Path:
        """The folder that holds what lane `axes["from"]` exported for a cell.

        Raises:
            NotRun: that lane exported nothing, or other cells but not this one.
        """
        lane = str(axes["from"])
        folder = self.of_lane(lane) / _name(axes)
        if not promise(folder, 0).is_file():
            raise NotRun(f"a checkpoint from {lane} in {folder}", f"run {lane} with --export-checkpoints DIR again")
        return folder


def promise(folder: Path, rank: int) -> Path:
    """The file in which a rank says what must be found after loading."""
    return folder / f"promise.{rank}.json"


def _name(axes: Axes) -> str:
    return f"stage={axes['stage']},dtype={axes['dtype']}"
