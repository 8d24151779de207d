"""`python -m conformance repro CELL`: the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance import integrations
from conformance.matrix import MATRICES, Matrix, MatrixError, load_matrix
from conformance.model.exit_code import ExitCode
from conformance.model.record import Record, RecordFileError, read_records
from conformance.model.verdict import NotRun
from conformance.repro.script import Wanted, check_of, script

BARE = "deepspeed"
"""What an upstream report wants: DeepSpeed with nothing around it."""


def main(words: Sequence[str]) -> int:
    """Print a script, or write it to --into; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance repro",
        description="Prints a Python file that shows by itself what a cell shows, ready for an upstream report.",
        allow_abbrev=False,
    )
    parser.add_argument("cell", metavar="CELL", help="the cell's id, as --list and reports show it")
    parser.add_argument("--integration", metavar="NAME", default=BARE, help=f"what starts DeepSpeed (default: {BARE})")
    parser.add_argument("--lane", metavar="NAME", help="whose launcher and transport (default: the first for the cell)")
    parser.add_argument("--transport", metavar="NAME", help="default: the lane's first")
    parser.add_argument("--records", metavar="FILE", type=Path, help="records that say what was observed")
    parser.add_argument("--into", metavar="FILE", type=Path, help="write to this file (default: print)")
    asked = parser.parse_args(list(words))
    try:
        text = _script(asked, load_matrix(MATRICES))
        if asked.into is None:
            print(text, end="")
        else:
            asked.into.write_text(text, encoding="utf-8", newline="\n")
            print(f"wrote {asked.into}; run it: python {asked.into}")
    except (MatrixError, RecordFileError, OSError, NotRun) as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.USAGE)
    return int(ExitCode.AS_EXPECTED)


def _script(asked: argparse.Namespace, matrix: Matrix) -> str:
    cell = next((cell for cell in matrix.cells if cell.id == asked.cell), None)
    if cell is None:
        raise MatrixError(f"CELL: found {asked.cell!r}, expected a cell's id in full; nox -s LANE -- --list shows them")
    lanes = [name for name in matrix.lanes if cell.lanes is None or name in cell.lanes]
    lane = matrix.lanes[_one_of("--lane", asked.lane or lanes[0], lanes)]
    transport = _one_of("--transport", asked.transport or lane.transports[0], lane.transports)
    integration = _one_of("--integration", asked.integration, integrations.names())
    observed = "" if asked.records is None else _observed(asked.records, cell.id, lane.name, asked.integration)
    command = f'python -m conformance repro "{cell.id}"'
    command += f" --lane {lane.name}" if asked.lane else ""
    command += f" --transport {transport}" if asked.transport else ""
    command += f" --integration {integration}" if integration != BARE else ""
    return script(Wanted(cell, lane, transport, integration, observed, command), matrix, check_of(cell))


def _one_of(option: str, found: str, known: Sequence[str]) -> str:
    if found not in known:
        raise MatrixError(f"{option}: found {found!r}, expected one of {', '.join(known)}")
    return found


def _observed(file: Path, cell: str, lane: str, integration: str) -> str:
    """What a record says of the cell, one of the same integration before others."""
    found = [record for record in read_records(file) if record.cell == cell and record.lane == lane]
    if not found:
        raise MatrixError(f"--records: {file} has no record of {cell} on {lane}")
    record: Record = max(found, key=lambda record: record.integration == integration)
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record.provenance.packages.items()))
    how = f"{record.integration}, {record.provenance.host.os_version}, Python {record.provenance.python}, {versions}"
    return f"{record.verdict.value} with {how}. {record.reason}".strip()
