"""Changing what surrounds DeepSpeed inside a rank, and putting it back."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from conformance.model.setting import Observation


@contextlib.contextmanager
def without_module(name: str) -> Iterator[None]:
    """Let every import of `name` fail as if it were not installed (ModuleNotFoundError)."""
    inside = [found for found in sys.modules if found == name or found.startswith(f"{name}.")]
    taken = {found: sys.modules.pop(found) for found in inside}
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
        sys.modules.update(taken)


@contextlib.contextmanager
def hostname_command(folder: Path, answer: str) -> Iterator[None]:
    """Let the command `hostname` be another one (Linux only), and PATH hold nothing else.

    Args:
        folder: an existing folder, of this rank alone.
        answer: `address` prints 127.0.0.1, `nothing` an empty line, `failure` ends with 1; for `missing` there is none.
    """
    script = {"address": "echo '127.0.0.1 '", "nothing": "echo", "failure": "exit 1"}.get(answer)
    if script is not None:
        command = folder / "hostname"
        command.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        command.chmod(0o755)
    path = os.environ["PATH"]
    os.environ["PATH"] = str(folder)
    try:
        yield
    finally:
        os.environ["PATH"] = path


def within(seconds: float, action: Callable[[], Observation]) -> Observation:
    """What `action` returns; or that it is still at it after `seconds`, since collectives may hang in native code.

    For the end of a scenario only: what is left behind ends with the process.
    """
    answers: queue.SimpleQueue[Observation] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(action()), daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        return {"raised": {"type": "StillWaiting", "module": __name__, "message": f"after {seconds:g} s"}}
