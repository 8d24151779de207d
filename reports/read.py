"""Reading record files and run headers, however broken: what cannot be read becomes a problem, never an end."""

from __future__ import annotations

import dataclasses
import glob
import gzip
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import pydantic
import pydantic_core

from conformance.model.record import SCHEMA_VERSION, Record
from conformance.model.run_header import FILE_PATTERNS, RunHeader, RunHeaderError, read_header
from reports.matrix import Problem

RECORD_PATTERNS = ("*.jsonl", "*.jsonl.gz")
PROBLEMS_A_FILE = 5
"""A foreign file has a problem in every line; the first few tell enough."""


class SourceError(Exception):
    """A path given by the user cannot be read at all; names it and the remedy."""


@dataclasses.dataclass(frozen=True)
class Sources:
    """What was read from some files and folders."""

    records: tuple[Record, ...]
    headers: tuple[RunHeader, ...]
    problems: tuple[Problem, ...]


def read_sources(paths: Iterable[Path | str]) -> Sources:
    """Records and headers of files, of folders (searched in depth) and of globs.

    Of a folder, every record file (`*.jsonl`, or packed `*.jsonl.gz`) and every run header is read; beside a record
    file given by name, its headers.

    Raises:
        SourceError: a path does not exist, a glob matches nothing, or a folder holds no record file.
    """
    files = list(dict.fromkeys(file for path in paths for file in _files_of(str(path))))
    records: list[Record] = []
    headers: list[RunHeader] = []
    problems: list[Problem] = []
    for file in files:
        if _is_header(file):
            try:
                headers.append(read_header(file))
            except RunHeaderError as error:
                problems.append(Problem(str(file), str(error).removeprefix(f"{file}: ")))
            except OSError as error:
                problems.append(Problem(str(file), f"cannot be read: {error.strerror or error}"))
        else:
            found, trouble = read_record_file(file)
            records += found
            problems += trouble
    return Sources(tuple(records), tuple(headers), tuple(problems))


def read_record_file(path: Path) -> tuple[list[Record], list[Problem]]:
    """The records of one file, and what in it is none."""
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        return [], [Problem(str(path), f"cannot be read: {getattr(error, 'strerror', None) or error}")]
    records: list[Record] = []
    problems: list[Problem] = []
    bad_lines = 0
    lines = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(Record.model_validate_json(line))
        except pydantic.ValidationError as error:
            bad_lines += 1
            if bad_lines > PROBLEMS_A_FILE:
                continue
            # The writer ends every line, so a last line without an end is a write that was cut short.
            cut = number == len(lines)
            what = "the line is cut off, as an interrupted write leaves it" if cut else _what_is_wrong(line, error)
            problems.append(Problem(f"{path}, line {number}", what))
    if bad_lines > PROBLEMS_A_FILE:
        problems.append(Problem(str(path), f"{bad_lines - PROBLEMS_A_FILE} more lines that are no records"))
    return records, problems


def _files_of(path: str) -> Sequence[Path]:
    """The files that a user means by a path; an existing path wins over reading it as a glob."""
    given = Path(path)
    if given.is_dir():
        found = sorted(file for pattern in (*RECORD_PATTERNS, *FILE_PATTERNS) for file in given.rglob(pattern))
        if not found:
            raise SourceError(
                f"{path}: no record file (*.jsonl, *.jsonl.gz) in this folder; give the folder that a run wrote"
            )
        return found
    if given.is_file():
        if _is_header(given):
            return [given]
        return [given, *sorted(file for pattern in FILE_PATTERNS for file in given.parent.glob(pattern))]
    if glob.has_magic(path):
        # cmd.exe and PowerShell hand globs over as they are.
        matched = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute pattern)
        if not matched:
            raise SourceError(f"{path}: no file or folder matches this pattern")
        return [file for match in matched for file in _files_of(match)]
    raise SourceError(f"{path}: no such file or folder")


def _is_header(file: Path) -> bool:
    return any(file.match(pattern) for pattern in FILE_PATTERNS)


def _what_is_wrong(line: bytes, error: pydantic.ValidationError) -> str:
    try:
        value = pydantic_core.from_json(line)
    except ValueError as not_json:
        return f"not JSON: {not_json}"
    if not isinstance(value, dict):
        return f"found {type(value).__name__}, expected a record (a JSON object)"
    version = value.get("schema_version")
    if version is not None and version != SCHEMA_VERSION:
        return f"schema_version: found {version!r}, expected {SCHEMA_VERSION}; a report of that version can read it"
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "line"
    return f"not a record: {where}: {first['msg']}"
