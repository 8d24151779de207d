"""Trying a release: the one cell, run by the harness in an overlay."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from packaging.version import Version

from conformance.model.record import Record
from conformance.model.verdict import Verdict
from conformance.run.record_file import recorded
from tools.bisect.answer import Answer
from tools.bisect.errors import TroubleError
from tools.bisect.overlay import UnusableError, overlay
from tools.bisect.question import Question
from tools.bisect.releases import releases_of

ROOT: Final = Path(__file__).resolve().parents[2]
RUN_SECONDS: Final = 3600.0
"""Beyond every deadline that the harness itself keeps."""


def attempt(question: Question, release: str, *, index_url: str | None = None) -> Answer:
    """What the cell comes to with a release, run once.

    Raises:
        TroubleError: the index went away, the cell is not run on this host, or the harness failed.
    """
    try:
        with overlay(question.package, release, os.environ, index_url=index_url) as variables:
            return _answer(question, release, variables)
    except UnusableError as error:
        if not error.installed:
            releases_of(question.package, index_url=index_url)  # Without the index, no release would install.
        return Answer(release=release, verdict=None, reason=str(error))


def _answer(question: Question, release: str, variables: dict[str, str]) -> Answer:
    with tempfile.TemporaryDirectory(prefix="conformance-bisect-") as folder:
        command = [sys.executable, "-m", "conformance", "run", "--lane", question.lane, "--cell", question.cell]
        command += ["--stack", question.stack, "--integration", question.integration, "--no-known-issues"]
        command += [] if question.transport is None else ["--transport", question.transport]
        command += ["--report-folder", folder]
        try:
            ended = subprocess.run(
                command,
                cwd=ROOT,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=RUN_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise TroubleError(f"the harness did not end within {RUN_SECONDS:.0f} s with {release}") from None
        records = list(recorded(Path(folder)))
    if len(records) != 1:
        raise TroubleError(f"the harness reported no verdict with {release}:\n{ended.stdout[-2000:]}")
    return answer_of(records[0], question, release)


def answer_of(record: Record, question: Question, release: str) -> Answer:
    """What a record says of a release. Pure.

    Raises:
        TroubleError: it says nothing of it.
    """
    if record.verdict in (Verdict.ERROR, Verdict.NOT_RUN):
        raise TroubleError(f"{record.cell} with {question.package} {release}: {record.verdict}: {record.reason}")
    found = record.provenance.packages.get(question.package)
    if found is not None and Version(found).public != Version(release).public:
        raise TroubleError(f"the cell ran with {question.package} {found}, expected {release}")
    return Answer(release=release, verdict=record.verdict, reason=record.reason)
