"""Running a lane on an emulated host, with a deadline, and leaving nothing of it behind."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from conformance.model.exit_code import exit_code
from conformance.model.record import EMULATED, Record, RecordFileError
from conformance.ranks.platform import posix
from conformance.run.record_file import recorded
from tools.hosts import ground, load, locales, memory
from tools.hosts.errors import UNARRANGED, EmulationError, Terminated, UsageError
from tools.hosts.kind import PLAIN, Kind

ROOT: Final = Path(__file__).resolve().parents[2]
PRELOAD: Final = Path(__file__).resolve().parent / "preload"
LOG: Final = "console.log"
"""In a kind's folder: what the run wrote on its console."""
INTERRUPT_SECONDS: Final = 45.0
"""How long an interrupted run has to write what it has; less than what nox gives the whole."""
SETTLE_SECONDS: Final = 5.0
"""How long processes have to end by themselves once the run has ended."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a lane run on one kind of host came to.

    Attributes:
        kind: the kind of host.
        exit_code: the run's; None where the deadline ended it.
        seconds: wall time.
        records: what was reported, by cell id.
        planned: the cells that were asked for.
        left: the names of processes that outlived the run, and that were then ended.
        tail: the end of what the run wrote on its console.
    """

    kind: Kind
    exit_code: int | None
    seconds: float
    records: Mapping[str, Record]
    planned: tuple[str, ...]
    left: tuple[str, ...] = ()
    tail: str = ""


def run(kind: Kind, lane: str, cells: Sequence[str], into: Path, *, deadline: float, words: Sequence[str]) -> Outcome:
    """Run cells of a lane on a kind of host; an interrupt is handed on, and raised again when the run has ended.

    Args:
        cells: their ids.
        into: the folder for the records; what it held before is gone.
        deadline: seconds after which the run and all that it started are ended.
        words: further options of a lane run.

    Raises:
        EmulationError: the host could not be arranged.
    """
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    command = [kind.python or sys.executable, "-m", "conformance", "run", "--lane", lane]
    command += [] if kind is PLAIN else ["--host-class", f"{EMULATED}{kind.name}"]
    command += ["--report-folder", str(into), *words]
    for cell in cells:
        command += ["--cell", cell]
    begin = time.monotonic()
    log = into / LOG
    with host(kind, command, into) as (started, variables), nothing_left() as left:
        with log.open("wb") as output, _on_cores(kind.conditions.cores):
            process = subprocess.Popen(started, cwd=ROOT, env=variables, stdout=output, stderr=subprocess.STDOUT)
        try:
            code: int | None = process.wait(deadline)
        except subprocess.TimeoutExpired:
            code = None
        except Terminated:
            raise
        except KeyboardInterrupt:  # The console has handed it to the run too.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(INTERRUPT_SECONDS)
            raise
    said = log.read_text(encoding="utf-8", errors="replace")
    if code == UNARRANGED and not (into / "run.json").exists():
        raise EmulationError(_last_line(said))
    try:
        records = {record.cell: record for record in recorded(into)} if (into / "records.jsonl").exists() else {}
    except RecordFileError as error:
        raise EmulationError(str(error)) from None
    return Outcome(kind, code, time.monotonic() - begin, records, tuple(cells), tuple(left), said[-2000:])


def done(folder: Path, cells: Sequence[str]) -> Outcome:
    """What a run on the machine as it is came to, from the records that it left.

    Args:
        cells: the ids of those that count.

    Raises:
        UsageError: the folder has no such records, or lacks some.
    """
    try:
        records = {record.cell: record for record in recorded(folder)}
    except (OSError, RecordFileError) as error:
        raise UsageError(f"--plain: {error}") from None
    if missing := [cell for cell in cells if cell not in records]:
        raise UsageError(f"--plain: {folder} lacks {len(missing)} of {len(cells)} cells, the first is {missing[0]}")
    mine = {cell: records[cell] for cell in cells}
    if emulated := next((record.provenance.host.emulated for record in mine.values()), ""):
        raise UsageError(f"--plain: {folder} has records of the emulated host {emulated}")
    code = exit_code(record.verdict for record in mine.values())
    return Outcome(PLAIN, int(code), sum(record.seconds for record in mine.values()), mine, tuple(cells))


def environment(kind: Kind, environ: Mapping[str, str], made: Path) -> dict[str, str]:
    """The variables of a run on a kind of host. Pure.

    Args:
        environ: this process's variables.
        made: the folder with what was made for the run: locales and the folder for temporary files.
    """
    conditions = kind.conditions
    changes: dict[str, str | None] = dict(conditions.environment)
    if conditions.locale is not None:
        changes |= {"LC_ALL": conditions.locale, "LANG": conditions.locale, "LANGUAGE": None}
    if locales.must_be_made(conditions.locale):
        changes["LOCPATH"] = str(made)
    if conditions.temporary is not None:
        changes |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(made / conditions.temporary))
    if conditions.software_fp16:
        changes["PYTHONPATH"] = os.pathsep.join([str(PRELOAD), *filter(None, [environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in environ.items() if name not in changes}
    return {**kept, **{name: value for name, value in changes.items() if value is not None}}


@contextlib.contextmanager
def host(kind: Kind, command: Sequence[str], into: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The command that runs `command` on a kind of host, and its variables; what is made for that goes at the end.

    Args:
        into: the folder that can be written into whatever the kind.

    Raises:
        EmulationError: the host cannot be made.
    """
    conditions = kind.conditions
    with contextlib.ExitStack() as made:
        folder = Path(made.enter_context(tempfile.TemporaryDirectory(prefix="conformance-hosts-")))
        folder.chmod(0o755)
        if conditions.locale is not None and locales.must_be_made(conditions.locale):
            locales.make(conditions.locale, folder)
        if conditions.temporary is not None:
            (folder / conditions.temporary).mkdir()
        variables = environment(kind, os.environ, folder)
        if conditions.busy:
            made.enter_context(load.busy(2 * (psutil.cpu_count() or 1)))
        if sys.platform != "linux":
            yield list(command), variables
            return
        group = None
        if conditions.memory_bytes is not None:
            group = made.enter_context(memory.limited(conditions.memory_bytes))
        if conditions.user is not None:
            os.chown(into, conditions.user, conditions.user)
        from tools.hosts.inside import Entry

        entry = Entry(
            conditions=conditions,
            command=tuple(command),
            environment=variables,
            checkout=str(ROOT),
            writable=str(into.resolve()),
            interpreter=sys.base_prefix,
            parent=os.getpid(),
            group=None if group is None else str(group),
        )
        spaces = ["unshare", "--mount", "--uts"] if ground.needs_namespaces(kind) else []
        spaces += ["--net"] if conditions.network != "host" else []
        yield [*spaces, sys.executable, "-m", "tools.hosts.inside", entry.to_text()], dict(os.environ)


@contextlib.contextmanager
def nothing_left() -> Iterator[list[str]]:
    """End all that was started in the block and still runs at its end; orphans of it become this process's children.

    Yields:
        A list that then holds the names of those processes, unless an exception ended the block.
    """
    posix.adopt_orphans()
    this = psutil.Process()
    before = set(this.children(recursive=True))
    left: list[str] = []

    def started() -> list[psutil.Process]:
        return [process for process in this.children(recursive=True) if process not in before]

    try:
        yield left
        _, alive = psutil.wait_procs(started(), timeout=SETTLE_SECONDS)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                left.append(process.name())
    finally:
        limit = time.monotonic() + SETTLE_SECONDS
        while (alive := started()) and time.monotonic() < limit:  # Again: what is killed may have started something.
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(alive, timeout=1.0)


@contextlib.contextmanager
def _on_cores(count: int | None) -> Iterator[None]:
    """What is started in the block may use that many cores only."""
    this = psutil.Process()
    if count is None or not hasattr(this, "cpu_affinity"):
        yield
        return
    all_of_them = this.cpu_affinity()
    this.cpu_affinity(all_of_them[:count])
    try:
        yield
    finally:
        this.cpu_affinity(all_of_them)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it ended without a word"
