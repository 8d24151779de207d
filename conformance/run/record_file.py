"""The folder that a run writes into: records as cells end, and the run's header."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import filelock

from conformance.model.record import Record, read_records, to_line

RECORDS = "records.jsonl"


class ReportFolderError(Exception):
    """The folder cannot be used: names it, why, and what to do."""


class RecordFile:
    """An open, locked `records.jsonl`; one run at a time."""

    def __init__(self, folder: Path, *, keep: bool) -> None:
        """Lock `folder` and open its record file.

        Args:
            keep: go on behind the records that are there (--resume) instead of starting anew.

        Raises:
            ReportFolderError: not writable, or another run is writing it.
        """
        self.folder = folder
        self.path = folder / RECORDS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = filelock.FileLock(folder / ".lock", timeout=0)
            self._lock.acquire()
            if keep:
                self._drop_torn_line()
            self._file: BinaryIO = self.path.open("ab" if keep else "wb")
        except filelock.Timeout:
            raise ReportFolderError(
                f"{folder}: another run is writing here; wait for it, or choose another folder with --report-folder"
            ) from None
        except UnicodeError as error:
            raise ReportFolderError(
                f"{folder}: no such name can be written in this locale ({error}); set PYTHONUTF8=1, or choose another "
                "folder with --report-folder"
            ) from None
        except OSError as error:
            raise ReportFolderError(
                f"{folder}: cannot be written ({error.strerror or error}); choose another folder with --report-folder"
            ) from None

    def append(self, record: Record) -> None:
        """Write one record so that it survives whatever comes next.

        Raises:
            ReportFolderError: the disk is full or the file went away; what was written before stays readable.
        """
        try:
            self._file.write(to_line(record).encode("utf-8") + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise ReportFolderError(
                f"{self.path}: cannot be written ({error.strerror or error}); free space and go on with --resume"
            ) from None

    def close(self) -> None:
        with contextlib.suppress(OSError):  # A full disk was reported by append; closing flushes the same bytes again.
            self._file.close()
        self._lock.release()

    def _drop_torn_line(self) -> None:
        """Cut off what an interrupted write left behind the last newline."""
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            with self.path.open("r+b") as file:
                file.truncate(whole)


def recorded(folder: Path) -> Iterator[Record]:
    """The records that a folder holds; none if there is no file.

    Raises:
        RecordFileError: a line is not a record.
    """
    path = folder / RECORDS
    if path.exists():
        yield from read_records(path)
