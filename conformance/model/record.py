"""Records: one line of JSON a cell, the only thing that reports read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pydantic
import pydantic_core

from conformance.model.verdict import Verdict

SCHEMA_VERSION: Final = 1

EMULATED: Final = "emulated-"
"""What the class of a host begins with that is emulated on another one."""


class Frozen(pydantic.BaseModel):
    """A validated value that does not change and has no unknown fields."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


def _json_number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


Number = Annotated[float, pydantic.PlainSerializer(_json_number, return_type=float | str, when_used="json")]
"""A float that survives JSON, which has no word for nan and inf: those become text, and are read back from it."""


class RuleText(Frozen):
    """A rule as it read when the cell ran, so that a report needs no other file."""

    id: str
    text: str
    source: str


class KnownIssueText(Frozen):
    """The known issue that explained (XFAIL) or failed to explain (XPASS) a verdict."""

    id: str
    title: str
    reference: str
    explanation: str = ""
    workaround: str = ""
    """What a user does instead; empty in records of before entries said so, as fault and area are."""
    fault: str = ""
    """Whose it is: `deepspeed`, `torch`, …"""
    area: str = ""
    """What it is about: `start`, `train`, …"""


class RankRecord(Frozen):
    """One rank's end, in short."""

    step: int
    """Which start of ranks in the cell, from 0."""
    rank: int
    status: str
    exit_code: int | None = None
    seconds: float = 0.0
    """Time in the scenario."""
    error: str | None = None
    """`Type: message` of what the scenario raised."""


class GpuInfo(Frozen):
    name: str
    memory_bytes: int


class Host(Frozen):
    """The machine, as far as a verdict may depend on it."""

    host_class: str
    """What kind of runner this is; given with --host-class, else `local` or `ci`."""
    os: str
    """`linux` or `windows`."""
    os_version: str
    """Distribution and kernel, or the Windows build."""
    machine: str
    cpu: str
    cpu_count: int
    memory_bytes: int
    gpus: tuple[GpuInfo, ...] = ()
    wine: str | None = None
    """Wine's version when a Windows lane ran under Wine; None on real Windows and on Linux."""
    capabilities: dict[str, bool | int | float | str] = pydantic.Field(default_factory=dict)
    """What a rank found out that this host can do, by name; empty where none was asked, as in records of before."""
    unknown: dict[str, str] = pydantic.Field(default_factory=dict)
    """Capabilities that could not be found out, by name, and why."""

    @property
    def emulated(self) -> str:
        """The kind of host that was emulated on this one; empty for the machine as it is."""
        return self.host_class.removeprefix(EMULATED) if self.host_class.startswith(EMULATED) else ""


class Provenance(Frozen):
    """Where, with what and from which sources a record came."""

    run: str
    """An id shared by all records of one run."""
    host: Host
    python: str
    packages: dict[str, str]
    """Versions of the packages of the stack, by distribution name; only what is installed."""
    git_commit: str | None = None
    """The harness's own commit, 40 hex digits; None outside a checkout."""
    git_dirty: bool | None = None
    mpi: str | None = None
    """On lanes that start ranks by mpiexec: whose MPI and which version, such as `mpich 5.0.2`."""
    environment: dict[str, str]
    """The variables that may change a verdict, as they were when the run started."""
    outer_job: tuple[str, ...] = ()
    """The names of the variables that a job around the run had set; ranks start without them."""
    ci_url: str | None = None


class Record(Frozen):
    """What one cell came to, once."""

    schema_version: Literal[1] = SCHEMA_VERSION
    cell: str
    """For instance `checkpoint/resume[stage=2,dtype=bf16,world=2]`."""
    suite: str
    case: str
    axes: dict[str, bool | int | float | str]
    title: str = ""
    """What was asked, in one sentence."""
    lane: str
    launcher: str
    transport: str
    stack: str
    integration: str
    verdict: Verdict
    reason: str
    """Why this verdict; empty for a plain PASS."""
    remedy: str | None = None
    """With NOT_RUN: what a user does about it."""
    rules: tuple[RuleText, ...] = ()
    known_issue: KnownIssueText | None = None
    started: str
    """UTC, ISO 8601."""
    seconds: float
    """Wall time of the cell."""
    scenario_seconds: float = 0.0
    """The part of `seconds` that the slowest rank of each step spent in its scenario."""
    rank_mode: str = ""
    """`forked`, `cold`, `prewarmed` or `reused`; empty where no rank started."""
    ranks: tuple[RankRecord, ...] = ()
    observations: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Rank 0's observations of the last step in short: arrays by shape and digest, long lists cut."""
    numbers: dict[str, Number] = pydantic.Field(default_factory=dict)
    """What the check measured, by name: errors and, as `<name>_tolerance`, what was allowed."""
    log: str = ""
    """Excerpt of the ranks' output; kept for every verdict but PASS."""
    stacks: str = ""
    """Stack dumps at the deadline."""
    repeat: str
    """The command that repeats just this cell."""
    provenance: Provenance

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes two records the same cell: lane, stack, integration, cell id."""
        return (self.lane, self.stack, self.integration, self.cell)


class RecordFileError(Exception):
    """A line of a record file is not a record; names the file and the line."""


def to_line(record: Record) -> str:
    """One line of JSON, without the newline; what cannot be UTF-8 (lone surrogates in file names) becomes `?`."""
    try:
        return record.model_dump_json(exclude_none=True)
    except pydantic_core.PydanticSerializationError:
        text = json.dumps(record.model_dump(mode="json", exclude_none=True), ensure_ascii=False)
        return text.encode("utf-8", "replace").decode("utf-8")


def read_records(path: Path) -> Iterator[Record]:
    """The records of a JSON Lines file, in file order.

    A last line without a newline is what an interrupted write leaves, and is passed over.

    Raises:
        RecordFileError: a complete line is not a record of a schema version known here.
    """
    with path.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith("\n"):
                return
            if not line.strip():
                continue
            try:
                yield Record.model_validate_json(line)
            except pydantic.ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"])) or "line"
                raise RecordFileError(f"{path}, line {number}: {where}: {first['msg']}") from None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a record line."""
    return Record.model_json_schema(mode="serialization")


def latest(records: Iterable[Record]) -> list[Record]:
    """One record a cell and lane, the last one written, in the order of first appearance."""
    by_key: dict[tuple[str, str, str, str], Record] = {}
    for record in records:
        by_key[record.key] = record
    return list(by_key.values())
