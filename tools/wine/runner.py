"""Runs a Windows program, hands its output on as it comes, and leaves nothing of it behind."""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import io
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import psutil

from conformance.ranks.platform import posix
from tools.wine.environment import WineEnvironment
from tools.wine.errors import WineError

MARK: Final = "WINE_RUN_MARK"
"""Set, to a value of its own for each run, in all processes of that run, wherever in the tree Wine puts them."""

WINE_SERVICES: Final = frozenset(
    {
        "explorer.exe",
        "plugplay.exe",
        "rpcss.exe",
        "services.exe",
        "svchost.exe",
        "wineboot.exe",
        "winedevice.exe",
        "wineserver",
        "wineserver64",
    }
)
"""Wine's own: the first run starts them, all runs in the prefix share them, and they end by themselves."""

SETTLE_SECONDS: Final = 2.0
"""How long processes have to end by themselves once the program that was run has ended."""

INTERRUPT_SECONDS: Final = 45.0
"""How long an interrupted program has to write what it has; less than what nox gives the whole."""

INTERRUPTED: Final = 130
"""The exit code when an interrupted program had to be ended, as shells have it."""

Write = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Finished:
    """What became of a program.

    Attributes:
        code: its exit code, of which Linux keeps the lowest 8 bits; None when the deadline ended it.
        text: standard output and error together.
        ended: the names of processes that it left behind, and that were then ended.
    """

    code: int | None
    text: str
    ended: tuple[str, ...]


def run(
    environment: WineEnvironment,
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path | None = None,
    variables: Mapping[str, str | None] | None = None,
    write: Write | None = None,
    interrupt_seconds: float = INTERRUPT_SECONDS,
) -> int:
    """Run a program with its output on the console, and return its exit code.

    An interrupt (Ctrl-C, or KeyboardInterrupt from a handler) is handed on to the program, which has a while to end.

    Args:
        argv: as in `WineEnvironment.command`.
        cwd: by default this process's.
        variables: set over this process's, after those that Windows programs must not see are gone; None unsets.
        write: what takes the output, by default standard output.
        interrupt_seconds: how long an interrupted program has before it and all that it started are ended.

    Returns:
        The program's exit code modulo 256; 128 and more when a signal ended it; 130 when it did not heed an interrupt.

    Raises:
        WineError: Wine cannot be started, or Windows cannot name a path.
    """
    write = console if write is None else write
    with _Program(environment, argv, cwd, variables, write) as program:
        try:
            code = program.wait(None)
        except KeyboardInterrupt:
            write(f"\ninterrupted: the Windows program has {interrupt_seconds:.0f} s to end\n")
            code = program.interrupt(interrupt_seconds)
    if program.ended:
        write(f"ended what outlived the Windows program: {', '.join(program.ended)}\n")
    return INTERRUPTED if code is None else code


def capture(
    environment: WineEnvironment,
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout: float,
    cwd: Path | None = None,
    variables: Mapping[str, str | None] | None = None,
) -> Finished:
    """Run a program and keep its output; arguments and errors as in `run`.

    Args:
        timeout: seconds after which it and all that it started are ended.
    """
    pieces: list[str] = []
    with _Program(environment, argv, cwd, variables, pieces.append) as program:
        code = program.wait(timeout)
    return Finished(code, "".join(pieces), program.ended)


def console(text: str) -> None:
    """Write to standard output at once; what its encoding lacks becomes `?`."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding))
    sys.stdout.flush()


class _Program:
    """A running program, its reader thread, and the end of everything that it started."""

    def __init__(
        self,
        environment: WineEnvironment,
        argv: Sequence[str | os.PathLike[str]],
        cwd: Path | None,
        variables: Mapping[str, str | None] | None,
        write: Write,
    ) -> None:
        self.ended: tuple[str, ...] = ()
        self._mark = uuid.uuid4().hex
        self._write = write
        environ = environment.environ()
        for name, value in (variables or {}).items():
            if value is None:
                environ.pop(name, None)
            else:
                environ[name] = value
        environ[MARK] = self._mark
        environment.windows(cwd or Path.cwd())  # Wine would start elsewhere, without a word, when it cannot name it.
        try:
            with posix.interruptible():
                self._process = subprocess.Popen(
                    environment.command(argv),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd=cwd,
                    env=environ,
                    start_new_session=True,  # A terminal's Ctrl-C must reach the program by `interrupt` alone.
                )
        except OSError as error:
            raise WineError(f"{environment.wine}: cannot be started in {cwd or Path.cwd()}: {error}") from None
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=_hand_on, args=(self._process.stdout, write), daemon=True)
        self._reader.start()

    def __enter__(self) -> _Program:
        return self

    def __exit__(self, *exception: object) -> None:
        settle = SETTLE_SECONDS if self._process.poll() is not None else 0.0
        self.ended = end_marked(self._mark, settle)
        self._process.wait()
        self._reader.join()  # Ends with the last process that holds the pipe.

    def wait(self, timeout: float | None) -> int | None:
        """The exit code; None when the program still runs after `timeout` seconds."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        return code if code >= 0 else 128 - code

    def interrupt(self, seconds: float) -> int | None:
        """Press Ctrl-C, as Wine understands SIGINT, and wait; a second interrupt ends the waiting."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        try:
            return self.wait(seconds)
        except KeyboardInterrupt:
            return None


def end_marked(mark: str, settle: float) -> tuple[str, ...]:
    """End all processes of a run, and return the names of those that had to be.

    Args:
        mark: the value of `MARK` in their environments.
        settle: seconds that they have to end by themselves.
    """
    deadline = time.monotonic() + settle
    names: dict[int, str] = {}
    while found := _marked(mark):
        if time.monotonic() >= deadline:
            for process in found:
                with contextlib.suppress(psutil.Error):
                    names.setdefault(process.pid, f"{process.name()} ({process.pid})")
                    process.kill()
        time.sleep(0.05)
    return tuple(names.values())


def _marked(mark: str) -> list[psutil.Process]:
    """The living processes of a run. Wine starts programs by way of a process that ends: there is no tree to follow."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if (
                process.environ().get(MARK) == mark
                and process.status() != psutil.STATUS_ZOMBIE
                and process.name() not in WINE_SERVICES
            ):
                found.append(process)
    return found


def _hand_on(source: IO[bytes], write: Write) -> None:
    """Hand on UTF-8 with plain newlines; once nobody takes it any more it is still read, so that its writer can end."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
    taken = True
    with source:
        while chunk := os.read(source.fileno(), 65536):
            taken = taken and _takes(write, decoder.decode(chunk))
        if taken:
            _takes(write, decoder.decode(b"", final=True))


def _takes(write: Write, text: str) -> bool:
    try:
        write(text)
    except (OSError, ValueError):  # A closed console.
        return False
    return True
