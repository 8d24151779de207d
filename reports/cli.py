"""What the command line does, and its exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import reports
from conformance.matrix import load_matrix
from reports.announce import AnnounceError, announce, body
from reports.compare import Difference, compare
from reports.matrix import Matrix
from reports.newest import newest

OK, REGRESSION, USAGE = 0, 1, 2

EPILOG = (
    "exit codes: 0 all well; 1 diff found a regression; "
    "2 wrong usage, nothing to read, or what cannot be written or announced"
)


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; problems go to stderr, in words."""
    for stream in (sys.stdout, sys.stderr):
        # A Windows console or a pipe may know fewer characters than a record holds.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    try:
        return COMMANDS[options.command](options)
    except (AnnounceError, reports.PublishError, reports.SourceError, reports.WriteError) as error:
        print(f"python -m reports: {error}", file=sys.stderr)
        return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reports", description="Reports from records.", epilog=EPILOG)
    commands = parser.add_subparsers(dest="command", required=True)
    what = "record files (*.jsonl, *.jsonl.gz), folders that hold some, or globs"
    build = commands.add_parser("build", help="merge records and write the report in every format", epilog=EPILOG)
    build.add_argument("records", nargs="+", metavar="RECORDS", help=what)
    build.add_argument("--into", required=True, type=Path, metavar="DIR", help="the folder to write; made if need be")
    build.add_argument(
        "--history",
        action="append",
        default=[],
        metavar="PATH",
        help="the records of one earlier run, for trends and comparison; give it once for each",
    )
    build.add_argument(
        "--newest", action="store_true", help="of each lane, stack and integration only the run that was begun last"
    )
    diff = commands.add_parser("diff", help="what changed from one set of records to another", epilog=EPILOG)
    diff.add_argument("before", metavar="A", help=what)
    diff.add_argument("after", metavar="B", help=what)
    told = commands.add_parser("announce", help="keep one issue on GitHub that says what is worse in B than in A")
    told.add_argument("before", metavar="A", help=what)
    told.add_argument("after", metavar="B", help=what)
    told.add_argument(
        "--repository", metavar="OWNER/NAME", help="whose issue; without it the text is printed, and GitHub not asked"
    )
    publish = commands.add_parser("publish", help="keep the records of finished runs in reports/published")
    publish.add_argument("records", nargs="+", metavar="RECORDS", help=what)
    return parser


def _build(options: argparse.Namespace) -> int:
    sources = _sources(options.records)
    matrix = _merged(newest(sources) if options.newest else sources)
    history = [past for path in options.history for past in reports.past_of(_matrix([path]))]
    for path in reports.write_matrix(matrix, options.into, history=history).values():
        print(path)
    return OK


def _diff(options: argparse.Namespace) -> int:
    found = compare(_matrix([options.before]), _matrix([options.after]))
    for difference in found:
        print(_line(difference))
    regressions = sum(difference.regression for difference in found)
    print(f"{len(found)} changed, {regressions} for the worse" if found else "nothing changed")
    return REGRESSION if regressions else OK


def _announce(options: argparse.Namespace) -> int:
    found = compare(_matrix([options.before]), _matrix([options.after]))
    if options.repository is None:
        print(body([difference for difference in found if difference.regression]), end="")
    else:
        print(announce(found, options.repository, run_url=_run_url(os.environ)))
    return OK


def _run_url(environ: Mapping[str, str]) -> str:
    """The address of the GitHub workflow's run that this is; empty elsewhere."""
    parts = [environ.get(name, "") for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
    return "{}/{}/actions/runs/{}".format(*parts) if all(parts) else ""


def _publish(options: argparse.Namespace) -> int:
    for folder in reports.publish(_sources(options.records), load_matrix()):
        print(folder)
    return OK


def _line(difference: Difference) -> str:
    before = difference.before.verdict.value if difference.before else "absent"
    after = difference.after.verdict.value if difference.after else "absent"
    reason = difference.after.reason if difference.after else ""
    line = f"{difference.change.value}: {difference.cell} on {difference.column}: {before} → {after}"
    return line + (f": {' '.join(reason.split())[:200]}" if reason else "")


COMMANDS = {"build": _build, "diff": _diff, "announce": _announce, "publish": _publish}


def _matrix(paths: Sequence[str]) -> Matrix:
    return _merged(_sources(paths))


def _merged(sources: reports.Sources) -> Matrix:
    return reports.merge(sources.records, sources.headers, problems=sources.problems)


def _sources(paths: Sequence[str]) -> reports.Sources:
    sources = reports.read_sources(paths)
    for problem in sources.problems:
        print(f"left out: {problem}", file=sys.stderr)
    if not sources.records and not sources.headers:
        raise reports.SourceError(f"{', '.join(paths)}: not one record could be read")
    return sources
