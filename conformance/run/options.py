"""What the user asked of a lane run, as one value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance.matrix import MATRICES
from conformance.model.planned_cell import DEFAULT_INTEGRATION
from conformance.run.cases import SUITES
from conformance.run.selection import Selection, parse_shard


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """What the user asked for, nothing of it checked against a matrix yet.

    Attributes:
        transport: None for the lane's first.
        ranks: how ranks start; `auto` for the lane's way.
        report_folder: where records and reports go.
        shard: as it was given, `I/N`.
        exported, imported: DIR of --export-checkpoints and --import-checkpoints.
        suites: the folder of suites.
    """

    lane: str
    transport: str | None
    stack: str
    integrations: tuple[str, ...]
    wanted: Selection
    shard: str
    known_issues: bool
    ranks: str
    resume: bool
    listing: bool
    report_folder: Path
    exported: str | None
    imported: str | None
    matrices: Path
    suites: Path
    host_class: str | None


def read_options(option: Callable[[str], Any]) -> RunOptions:
    """The options of a run. Pure.

    Args:
        option: from an option's name to its value, as `pytest.Config.getoption`.

    Raises:
        MatrixError: one is not of its form.
    """
    lane = str(option("lane"))
    return RunOptions(
        lane=lane,
        transport=option("transport"),
        stack=option("stack"),
        integrations=tuple(dict.fromkeys(option("integration") or [DEFAULT_INTEGRATION])),
        wanted=Selection(
            suites=tuple(option("suite")),
            globs=tuple(option("cell")),
            profile=option("profile"),
            part=parse_shard(option("shard")),
        ),
        shard=option("shard"),
        known_issues=not option("no_known_issues"),
        ranks=option("ranks"),
        resume=bool(option("resume")),
        listing=bool(option("list_cells")),
        report_folder=Path(option("report_folder") or Path("results") / lane),
        exported=option("export_checkpoints"),
        imported=option("import_checkpoints"),
        matrices=Path(option("matrices") or MATRICES),
        suites=Path(option("suites_folder") or SUITES),
        host_class=option("host_class"),
    )
