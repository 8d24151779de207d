"""What torch here can do with the GPUs of this host."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from conformance.hosts.inherited import inherited

ASK = """
import json, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
nccl = torch.distributed.is_available() and torch.distributed.is_nccl_available()
print("FACTS " + json.dumps({
    "count": count,
    "nccl": ".".join(map(str, torch.cuda.nccl.version())) if nccl and count else None,
    "peers": [[a == b or torch.cuda.can_device_access_peer(a, b) for b in range(count)] for a in range(count)],
}))
"""
TIMEOUT = 120.0


@dataclasses.dataclass(frozen=True)
class CudaFacts:
    """What torch said.

    Attributes:
        count: GPUs that torch can use.
        nccl: NCCL's version; None where torch has no NCCL.
        peers: whether GPU a reads GPU b's memory directly, count × count.
        problem: why torch could not be asked; empty if it answered.
    """

    count: int = 0
    nccl: str | None = None
    peers: tuple[tuple[bool, ...], ...] = ()
    problem: str = ""


def cuda_of_torch() -> str | None:
    """The CUDA version that torch was built for, read from its files; None for a CPU build or without torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^cuda\b[^=]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return found[1] if found else None


@functools.cache
def cuda_facts(devices: tuple[str, ...] | None = None) -> CudaFacts:
    """Ask torch, in a process of its own: this one must never initialise CUDA, since its ranks may be forked.

    Args:
        devices: the only GPUs, as CUDA_VISIBLE_DEVICES names them; None leaves that variable alone.
    """
    visible = {} if devices is None else {"CUDA_VISIBLE_DEVICES": ",".join(devices)}
    try:
        answer = subprocess.run(
            [sys.executable, "-c", ASK],
            capture_output=True,
            timeout=TIMEOUT,
            encoding="utf-8",
            errors="replace",
            env=inherited({**os.environ, **visible}),
        )
    except (OSError, subprocess.SubprocessError) as error:
        return CudaFacts(problem=str(error))
    for line in answer.stdout.splitlines():
        if line.startswith("FACTS "):
            told = json.loads(line.removeprefix("FACTS "))
            return CudaFacts(told["count"], told["nccl"], tuple(map(tuple, told["peers"])))
    last = answer.stderr.strip().splitlines()[-1:] or ["no answer"]
    return CudaFacts(problem=f"torch ended with code {answer.returncode}: {last[0]}")
