"""Running programs as ranks, and reading what they print."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
SECONDS = 300  # a deadline, not a measure: a loaded machine takes ten times as long as an idle one
_OF_LAUNCHERS = (
    "RANK WORLD_SIZE LOCAL_RANK LOCAL_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT PMI_RANK PMI_SIZE PMIX_RANK "
    "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK SLURM_NTASKS SLURM_STEP_NUM_TASKS"
)


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what a launcher set, on the CPU, with the project importable."""
    kept = {name: value for name, value in os.environ.items() if name not in _OF_LAUNCHERS.split()}
    path = os.pathsep.join([str(ROOT), *filter(None, [kept.get("PYTHONPATH")])])
    return kept | {"PYTHONPATH": path, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"} | dict(changes or {})


def ranks(world: int) -> list[dict[str, str]]:
    """The five variables for each rank of a job on this host."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [
        {
            "RANK": str(rank),
            "WORLD_SIZE": str(world),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        for rank in range(world)
    ]


def run(commands: Sequence[Sequence[str | Path]], environments: Sequence[Mapping[str, str]]) -> list[str]:
    """Run the commands at once; what each printed. Fails the test if one fails or does not end."""
    processes = [
        subprocess.Popen(
            [str(word) for word in command],
            env=environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        for command, variables in zip(commands, environments, strict=True)
    ]
    outputs = []
    try:
        for process in processes:
            outputs.append(process.communicate(timeout=SECONDS)[0])
    finally:
        for process in processes:
            end(process)
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output[-4000:]
    return outputs


def end(process: subprocess.Popen[str]) -> None:
    """End what is left of a process and of those that it started."""
    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return
    process.kill()
    for child in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    process.communicate()


def program(name: str, *arguments: str | Path) -> list[str | Path]:
    """The command that runs a program of this folder."""
    return [sys.executable, PROGRAMS / name, *arguments]


def results(output: str) -> list[dict[str, Any]]:
    """The objects in the RESULTS lines of an output."""
    return [json.loads(line.partition("RESULTS ")[2]) for line in output.splitlines() if "RESULTS {" in line]
