"""`python -m conformance run --lane linux_gloo …`: a lane run with its own exit codes.

`repro`: a script for an upstream report; `durations`: takes over durations for shards; `known`: known issues against
records.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.matrix import MATRICES, MatrixError, load_matrix
from conformance.matrix.durations import durations_of, write_durations
from conformance.model.exit_code import ExitCode
from conformance.model.record import RecordFileError, read_records
from conformance.run.guesses import guesses
from conformance.run.known_ranges import contradictions
from reports import SourceError, read_sources

ROOT = Path(__file__).resolve().parents[1]
USAGE = """usage: python -m conformance run --lane NAME [options]
       python -m conformance repro CELL [--exact] [--into FILE] [options]
       python -m conformance durations RECORDS...
       python -m conformance known [RECORDS...]

run: the cells of one lane; options are those under "DeepSpeed conformance" in `python -m pytest --help`, and pytest's
repro: prints a cell as a script of at most 80 lines, for an upstream report; or writes a file that replays it exactly
durations: takes over how long cells took, for --shard
known: checks the versions of known issues against records of several stacks (files, folders, globs; the published ones
  by default), and tells the entries of which no record speaks
exit codes: 0 all as expected; 1 a FAIL, CRASH, TIMEOUT or XPASS; 2 wrong usage or matrix; 3 nothing ran, or ERROR"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: this process's) and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] in (["-h"], ["--help"], []):
        print(USAGE)
        return int(ExitCode.AS_EXPECTED if words else ExitCode.USAGE)
    if words[0] == "durations" and words[1:]:
        return durations(list(map(Path, words[1:])))
    if words[0] == "known":
        return known(words[1:] or [str(ROOT / "reports" / "published")])
    if words[0] == "repro":
        from conformance.repro import command

        return command.main(words[1:])
    if words[0] != "run":
        expected = "'run', 'repro CELL', 'durations RECORDS' or 'known'"
        print(f"error: found {' '.join(words)!r}, expected {expected}\n{USAGE}", file=sys.stderr)
        return int(ExitCode.USAGE)
    set_aside_pytest_variables()
    # The plugin is named here although conftest.py does too: an option's value that is an existing folder would
    # otherwise be taken for the tests' folder, and the conftest.py that knows the option would not be found.
    fixed = [
        f"--rootdir={ROOT}",
        f"--config-file={ROOT / 'pyproject.toml'}",
        "-p",
        "conformance.plugin",
        "-p",
        "no:cacheprovider",
        *(("-p", "xdist") if importlib.util.find_spec("xdist") is not None else ()),  # a name that -p no:xdist blocks
    ]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, which may be ignored in the background
    code = int(pytest.main([*fixed, *words[1:]]))
    return int(ExitCode.USAGE) if code == pytest.ExitCode.USAGE_ERROR else code


def set_aside_pytest_variables() -> None:
    """Let nothing that somebody's shell tells pytest, nor a plug-in that is installed, change what is run."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        if value := os.environ.pop(name, ""):
            print(f"{name}={value!r} is set and not used: options of this run follow --lane", file=sys.stderr)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"


def durations(files: Sequence[Path]) -> int:
    """Take over the times of record files into matrices/durations.json."""
    try:
        seconds = durations_of(record for file in files for record in read_records(file))
        print(write_durations(MATRICES, seconds))
    except (OSError, RecordFileError, MatrixError) as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.USAGE)
    return int(ExitCode.AS_EXPECTED)


def known(paths: Sequence[str]) -> int:
    """Check the known issues' versions against the records in files and folders, tell what to write instead, and which
    entries no record bears out."""
    try:
        matrix = load_matrix()
        sources = read_sources(paths)
    except (SourceError, MatrixError) as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.USAGE)
    for problem in sources.problems:
        print(f"left out: {problem}", file=sys.stderr)
    cells = {cell.id: cell for cell in matrix.cells}
    found = contradictions(matrix.known_issues, cells, sources.records)
    for each in found:
        print(f"error: {matrix.folder / 'known_issues.toml'}: {each}")
    guessed = guesses(matrix.known_issues, cells, matrix.lanes.values(), sources.records)
    for guess in guessed:
        print(guess)
    print(
        f"{len(matrix.known_issues)} known issues, {len(sources.records)} records, {len(found)} contradicted, "
        f"{len(guessed)} guesses"
    )
    return int(ExitCode.USAGE if found or not sources.records else ExitCode.AS_EXPECTED)


if __name__ == "__main__":
    sys.exit(main())
