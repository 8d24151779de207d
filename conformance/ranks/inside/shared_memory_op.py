"""Keeping DeepSpeed from compiling an op while it connects."""

from __future__ import annotations

import sys

NAME = "deepspeed_shm_comm"


def switch_off() -> None:
    """Tell DeepSpeed, if this process has imported it, that its shared-memory collective cannot be built here.

    On a Linux CPU, TorchBackend compiles it whenever it connects: a minute at first, for ever behind the lock of a
    build that was killed. Only inference uses it, so a rank that no case asked for it must need no compiler. With
    another accelerator there is no such op, and nothing to ask its op builders.
    """
    deepspeed = sys.modules.get("deepspeed")
    if deepspeed is not None and deepspeed.accelerator.get_accelerator().device_name() == "cpu":
        deepspeed.ops.__compatible_ops__[NAME] = False


def switch_on() -> None:
    """Take that back."""
    deepspeed = sys.modules.get("deepspeed")
    if deepspeed is not None:
        vars(deepspeed.ops).pop("__compatible_ops__", None)
