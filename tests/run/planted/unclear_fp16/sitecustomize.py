"""Behind the emulation of fp16 on PYTHONPATH: a DeepSpeed whose accelerator contradicts itself about it."""

from __future__ import annotations

from typing import Any

from after_import import after_import


def _contradict(module: Any) -> None:
    module.CPU_Accelerator.is_fp16_supported = lambda self: True
    module.CPU_Accelerator.supported_dtypes = lambda self: []


after_import("deepspeed.accelerator.cpu_accelerator", _contradict)
