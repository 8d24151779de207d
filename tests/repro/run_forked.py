"""Runs short scripts one after another in forks of a process that has imported torch and DeepSpeed once.

A script alone pays for that import in itself and in each of its ranks: 40 s and more on two cores. Here its ranks are
forks too, by torch's own start method of that name; nothing else differs. POSIX only.
"""

from __future__ import annotations

import functools
import json
import os
import runpy
import signal
import sys
import time
from pathlib import Path

PATIENCE = 150.0
"""Seconds for a script."""


def main(files: list[str]) -> None:
    """Print a line of JSON with what the device can do, run each file in a fork, and print a line for each: file, exit
    code (None: ended late), seconds."""
    import torch.multiprocessing
    from deepspeed.accelerator import get_accelerator

    device = get_accelerator()
    can = {"fp16": bool(device.is_fp16_supported()), "bf16": bool(device.is_bf16_supported())}
    print(json.dumps({"accelerator": device.device_name(), **can}), flush=True)
    start = functools.partial(torch.multiprocessing.start_processes, start_method="fork")
    torch.multiprocessing.spawn = start  # type: ignore[assignment]
    for file in files:
        begin = time.monotonic()
        child = os.fork()
        if child == 0:
            run(Path(file))
        code = wait(child, begin + PATIENCE)
        print(json.dumps({"file": file, "code": code, "seconds": time.monotonic() - begin}), flush=True)


def run(file: Path) -> None:
    """In the fork: run the file as a program, with its output in a file beside it."""
    os.setpgid(0, 0)
    log = os.open(file.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 0
    try:
        runpy.run_path(str(file), run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        print(f"did not come to a verdict: {error!r}", file=sys.stderr)
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def wait(child: int, limit: float) -> int | None:
    """The exit code; None for a script that had to be ended."""
    while time.monotonic() < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
