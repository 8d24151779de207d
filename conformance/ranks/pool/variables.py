"""The variables that ranks start with."""

from __future__ import annotations

import re
from collections.abc import Mapping

_READ_AT_IMPORT = re.compile(
    r"DS_ACCELERATOR|DS_SKIP_|PYTHON|LC_|LANG|LOCPATH|LD_|OMP_|MKL_|KMP_|OPENBLAS_|NUMEXPR_"
    r"|ATEN_|CUDA_|NVIDIA_|PYTORCH_|TORCH_|MALLOC_"
)

FORK_SERVER = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
"""Keeps the libraries that a fork server imports from starting threads, and torch from asking CUDA for devices."""


def overlaid(environment: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """`environment` with the variables of `changes` set, or with None unset."""
    result = {name: value for name, value in environment.items() if name not in changes}
    result.update({name: value for name, value in changes.items() if value is not None})
    return result


def of_rank(rank: int, world: int, port: int) -> dict[str, str | None]:
    """What the launcher `env` tells rank `rank` of `world` ranks on one host."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def needs_fresh_interpreter(changes: Mapping[str, str | None]) -> bool:
    """Whether a variable is among `changes` that is read when torch, DeepSpeed or the interpreter start."""
    return any(_READ_AT_IMPORT.match(name.upper()) for name in changes)
