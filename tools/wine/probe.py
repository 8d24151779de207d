"""What an environment says of itself. Its own Python runs this file, alone: `python probe.py QUESTION`.

It prints the answer as one line of JSON; an exception is a failed examination.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import socket
import sys
from collections.abc import Callable
from typing import Any


def versions() -> dict[str, Any]:
    """The interpreter's version and machine, and every distribution's version."""
    found = {each.metadata["Name"]: each.version for each in importlib.metadata.distributions()}
    return {"platform": sys.platform, "python": platform.python_version(), "packages": found}


def sockets() -> dict[str, Any]:
    """Whether bytes go through a loopback connection, and the address of this host's own name."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"to and")
            accepted.sendall(accepted.recv(16) + b" fro")
            echo = client.recv(16).decode()
    return {"echo": echo, "address": socket.gethostbyname(socket.gethostname())}


def training() -> dict[str, Any]:
    """Whether torch computes, has gloo, and DeepSpeed imports."""
    import deepspeed
    import torch

    weight = torch.zeros(1, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad((weight @ torch.ones(2, 1)).sum(), weight)
    return {
        "gradient": gradient.tolist(),
        "gloo": torch.distributed.is_gloo_available(),
        "torch": torch.__version__,
        "deepspeed": deepspeed.__version__,
    }


def ranks() -> dict[str, Any]:
    """The sum of 1 over all ranks that mpiexec started: their number when they have found each other."""
    from mpi4py import MPI

    return {"ranks": MPI.COMM_WORLD.allreduce(1), "library": MPI.Get_library_version().splitlines()[0]}


QUESTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    question.__name__: question for question in (versions, sockets, training, ranks)
}

if __name__ == "__main__":
    print(json.dumps(QUESTIONS[sys.argv[1]]()), flush=True)
