"""Bundles of checkpoints that one lane hands to another: --export-checkpoints and --import-checkpoints.

DIR/LANE/stage=2,dtype=fp32/ holds a DeepSpeed checkpoint of two ranks and, in `promise.RANK.json`, what must be found
after loading.
"""

from __future__ import annotations

import os
from pathlib import Path

from conformance.model.setting import Axes
from conformance.model.verdict import NotRun

CHECKPOINT = "checkpoint"
EXPORT = "CONFORMANCE_EXPORT_CHECKPOINTS"
"""DIR/LANE of this run, absolute."""
IMPORT = "CONFORMANCE_IMPORT_CHECKPOINTS"
"""The folder DIR that other lanes' exports were gathered in, absolute."""


def announce(export: str | None, imported: str | None, lane: str) -> None:
    """Tell probes and plans of this process and its ranks where bundles go and come from."""
    if export is not None:
        os.environ[EXPORT] = str(Path(export).resolve() / lane)
    if imported is not None:
        os.environ[IMPORT] = str(Path(imported).resolve())


def own(axes: Axes) -> Path:
    """The folder that this run exports a cell's checkpoint into; made if missing.

    Raises:
        NotRun: it exports none.
    """
    probe_export("")
    folder = Path(os.environ[EXPORT]) / _name(axes)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def foreign(axes: Axes) -> Path:
    """The folder that holds what lane `axes["from"]` exported.

    Raises:
        NotRun: that lane exported nothing, or other cells but not this one.
    """
    probe_import(str(axes["from"]))
    folder = Path(os.environ[IMPORT]) / str(axes["from"]) / _name(axes)
    if not promise(folder, 0).is_file():
        raise NotRun(
            f"a checkpoint from {axes['from']} in {folder}", f"run {axes['from']} with --export-checkpoints DIR again"
        )
    return folder


def promise(folder: Path, rank: int) -> Path:
    """The file in which a rank says what must be found after loading."""
    return folder / f"promise.{rank}.json"


def probe_export(_: str) -> None:
    """Whether this run exports.

    Raises:
        NotRun: it does not.
    """
    if not os.environ.get(EXPORT):
        raise NotRun("a folder to export checkpoints to", "give --export-checkpoints DIR")


def probe_import(lane: str) -> None:
    """Whether `lane` left an export where this run imports from.

    Raises:
        NotRun: it did not.
    """
    folder = os.environ.get(IMPORT)
    if not folder or not (Path(folder) / lane).is_dir():
        raise NotRun(
            f"checkpoints that {lane} has exported",
            f"run {lane} with --export-checkpoints DIR, then this with --import-checkpoints DIR",
        )


def _name(axes: Axes) -> str:
    return f"stage={axes['stage']},dtype={axes['dtype']}"
