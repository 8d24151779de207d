"""Keeping DeepSpeed from compiling an op while it connects."""

from __future__ import annotations

import importlib.util

NAME = "deepspeed_shm_comm"


def switch_off() -> None:
    """Tell DeepSpeed in this process that its shared-memory collective cannot be built here.

    On a Linux CPU, TorchBackend compiles it whenever it connects: a minute at first, for ever behind the lock of a build that was
    killed. Only inference uses it, so a rank that no case asked for it must need no compiler.
    """
    if importlib.util.find_spec("deepspeed") is None:
        return
    import deepspeed.ops

    deepspeed.ops.__compatible_ops__[NAME] = False
