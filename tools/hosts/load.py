"""Other work that keeps all cores busy."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

_WORK: Final = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    pass
"""
"""Ends when its standard input does, so that it does not outlive this process, however that ends."""


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep that many processes at work while the block runs."""
    with contextlib.ExitStack() as working:
        for _ in range(processes):
            command = [sys.executable, "-S", "-E", "-c", _WORK]
            process = working.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE))
            working.callback(process.kill)
        yield
