"""The header of a run: what it set out to do, so that a report can tell what is missing.

The pipeline writes `run.json` beside `records.jsonl` before the first cell, and again when the run ends; where one run
drives several integrations, it writes `run.<integration>.json` for each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import pydantic

from conformance.model.record import Frozen, Provenance

SCHEMA_VERSION: Final = 1
FILE_NAME = "run.json"
FILE_PATTERNS = ("run.json", "run.*.json")


class RunHeader(Frozen):
    """One run of one lane, stack and integration (or of one shard of it)."""

    schema_version: Literal[1] = SCHEMA_VERSION
    run: str
    """The same id as in the provenance of the run's records."""
    lane: str
    launcher: str = ""
    transport: str = ""
    stack: str
    integration: str
    shard: str | None = None
    """`1/4` when this run held a part of the selection; `planned` then lists that part only."""
    planned: tuple[str, ...]
    """The ids of the cells that the run set out to report, in order."""
    excluded: dict[str, str] = pydantic.Field(default_factory=dict)
    """Cells of the matrix that this lane leaves out for good, by id, each with its reason."""
    started: str
    """UTC, ISO 8601."""
    finished: str | None = None
    """UTC, ISO 8601; None while the run goes on, and for ever after one that was killed."""
    interrupted: bool = False
    """Whether the run was stopped before its last cell (Ctrl-C, disk full)."""
    note: str = ""
    """Why the run was stopped or narrowed, in one sentence."""
    provenance: Provenance | None = None
    """As in the records; lets a report describe the host of a run that reported no cell."""

    @property
    def partial(self) -> bool:
        """Whether the run did not come to its planned end."""
        return self.interrupted or self.finished is None


class RunHeaderError(Exception):
    """A file is not a run header; names the file and what is wrong with it."""


def to_text(header: RunHeader) -> str:
    """The text of a header file."""
    return header.model_dump_json(exclude_none=True, indent=1) + "\n"


def read_header(path: Path) -> RunHeader:
    """The header in a file.

    Raises:
        RunHeaderError: the file does not hold a run header of a schema version known here.
    """
    try:
        return RunHeader.model_validate_json(path.read_bytes())
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise RunHeaderError(f"{path}: {where}: {first['msg']}") from None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a header file."""
    return RunHeader.model_json_schema(mode="serialization")
