"""On PYTHONPATH of an emulated host: DeepSpeed's CPU accelerator answers that fp16 is supported.

PyTorch computes it in software then, which is slow and right. Python imports this module at its start; it waits for
DeepSpeed's own module, so that nothing is imported that would not be, and hands on to an installed sitecustomize.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import Any

from after_import import after_import

HERE = str(Path(__file__).resolve().parent)


def _fp16(module: Any) -> None:
    module.CPU_Accelerator.is_fp16_supported = lambda self: True


def _installed_one() -> None:
    """Run the sitecustomize that this one stands in front of, if there is one."""
    elsewhere = [entry for entry in sys.path if str(Path(entry).resolve()) != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


after_import("deepspeed.accelerator.cpu_accelerator", _fp16)
_installed_one()
