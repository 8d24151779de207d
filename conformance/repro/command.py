"""`python -m conformance repro CELL`: the command line."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance import integrations
from conformance.matrix import MATRICES, Matrix, MatrixError, load_matrix
from conformance.model.exit_code import ExitCode
from conformance.model.record import Record, RecordFileError, read_records
from conformance.repro.exact import Replay, pack
from conformance.repro.forms import Repro, Short
from conformance.repro.render import LINES, About, render

BARE = "deepspeed"
"""What an upstream report wants: DeepSpeed with nothing around it."""

SHOWN = ("deepspeed", "torch")
"""Distributions whose versions a script names; that of another integration beside them."""


class NoShortFormError(Exception):
    """A cell that has no short form, so run as was asked."""


def main(words: Sequence[str]) -> int:
    """Print a script, or write it to --into; or pack the cell as it is with --exact. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance repro",
        description="Prints at most 80 lines of Python that show by themselves what a cell shows, ready for an "
        "upstream report; or, with --exact, writes one file that replays the cell as the harness runs it.",
        allow_abbrev=False,
    )
    parser.add_argument("cell", metavar="CELL", help="the cell's id, as --list and reports show it")
    parser.add_argument("--exact", action="store_true", help="write a .pyz that replays the cell with the harness")
    parser.add_argument(
        "--integration", metavar="NAME", help=f"what starts DeepSpeed (default: {BARE}, if it is for it)"
    )
    parser.add_argument("--lane", metavar="NAME", help="whose launcher and transport (default: the first for the cell)")
    parser.add_argument("--transport", metavar="NAME", help="default: the lane's first")
    parser.add_argument("--records", metavar="FILE", type=Path, help="records that say what was observed")
    parser.add_argument("--into", metavar="FILE", type=Path, help="write to this file (default: print)")
    asked = parser.parse_args(list(words))
    try:
        matrix = load_matrix(MATRICES)
        replay = _replay(asked, matrix)
        if asked.exact:
            file = pack(replay, asked.into or Path("repro.pyz"))
            print(f"wrote {file}; run it: python {file}")
            return int(ExitCode.AS_EXPECTED)
        text = script(replay, matrix, records=asked.records)
        if asked.into is None:
            print(text, end="")
        else:
            asked.into.write_text(text, encoding="utf-8", newline="\n")
            print(f"wrote {asked.into}; run it: python {asked.into}")
    except (MatrixError, RecordFileError, OSError, NoShortFormError) as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.USAGE)
    return int(ExitCode.AS_EXPECTED)


def _replay(asked: argparse.Namespace, matrix: Matrix) -> Replay:
    cell = next((cell for cell in matrix.cells if cell.id == asked.cell), None)
    if cell is None:
        raise MatrixError(f"CELL: found {asked.cell!r}, expected a cell's id in full; nox -s LANE -- --list shows them")
    lanes = [name for name in matrix.lanes if cell.lanes is None or name in cell.lanes]
    lane = matrix.lanes[_one_of("--lane", asked.lane or lanes[0], lanes)]
    transport = _one_of("--transport", asked.transport or lane.transports[0], lane.transports)
    known = [name for name in integrations.names() if cell.integrations is None or name in cell.integrations]
    usual = BARE if BARE in known else known[0]
    return Replay(cell, lane, transport, _one_of("--integration", asked.integration or usual, known))


def _one_of(option: str, found: str, known: Sequence[str]) -> str:
    if found not in known:
        raise MatrixError(f"{option}: found {found!r}, expected one of {', '.join(known)}")
    return found


def script(replay: Replay, matrix: Matrix, *, records: Path | None = None) -> str:
    """The script of a cell.

    Raises:
        NoShortFormError: it has none.
        RecordFileError: `records` cannot be read. MatrixError: it does not tell of the cell.
    """
    short = short_form(replay)
    if short is not None:
        text = render(short, _about(short, replay, matrix, records), cpu=replay.lane.device != "cuda")
        if text.count("\n") <= LINES:
            return text
    raise NoShortFormError(
        f"{replay.cell.id} has no short form on {replay.lane.name} with {replay.integration}; "
        "repro CELL --exact writes a file that replays it with the harness"
    )


def short_form(replay: Replay) -> Repro | None:
    """How a cell looks in short; None for ranks that mpiexec must start, and where the suite says none."""
    cell = replay.cell
    if replay.lane.launcher != "env" or replay.transport != replay.lane.transports[0]:
        return None
    try:
        module = importlib.import_module(f"conformance.repro.suites.{cell.suite}")
    except ModuleNotFoundError:
        return None
    shown: dict[str, dict[str, Short]] = module.SHORT
    short = shown.get(replay.integration, {}).get(cell.case)
    return None if short is None else short(cell.axes)


def _about(short: Repro, replay: Replay, matrix: Matrix, records: Path | None) -> About:
    cell = replay.cell
    rule = matrix.rules[cell.rules[0]]
    title, found = cell.title, ""
    for issue in matrix.known_issues:
        if issue.covers(cell, replay.lane.name, replay.transport, replay.integration) and not found:
            title, found = issue.title, issue.explanation
    versions = _versions(replay.integration)
    if records is not None:
        found, versions = _observed(records, replay)
    return About(
        title, short.expected or f"{rule.text} [{rule.source}]", found, versions, _command(replay), short.brief
    )


def _command(replay: Replay) -> str:
    words = ["python", "-m", "conformance", "repro", f'"{replay.cell.id}"']
    if replay.lane.device == "cuda":
        words += ["--lane", replay.lane.name]
    if replay.integration != BARE:
        words += ["--integration", replay.integration]
    return " ".join(words)


def _versions(integration: str) -> str:
    """Of what is installed here."""
    found = []
    for name in (*SHOWN, integration):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join([*dict.fromkeys(found), f"Python {platform.python_version()}", platform.system()])


def _observed(file: Path, replay: Replay) -> tuple[str, str]:
    """What a record says of the cell, one of the same integration before others, and with which versions."""
    of_cell = [each for each in read_records(file) if each.cell == replay.cell.id and each.lane == replay.lane.name]
    if not of_cell:
        raise MatrixError(f"--records: {file} has no record of {replay.cell.id} on {replay.lane.name}")
    record: Record = max(of_cell, key=lambda record: record.integration == replay.integration)
    packages = [f"{name} {record.provenance.packages[name]}" for name in SHOWN if name in record.provenance.packages]
    how = [*packages, f"Python {record.provenance.python}", record.provenance.host.os_version]
    return f"{record.verdict.value} with {record.integration}. {record.reason}".strip(), ", ".join(how)
