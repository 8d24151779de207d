"""Beneath PYTHONPATH: a DeepSpeed that takes its CPU for one with fp16, which torch then computes in software.

With PLANTED_FP16=unclear its accelerator contradicts itself about it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

NAME = "deepspeed.accelerator.cpu_accelerator"


class _Loader(importlib.abc.Loader):
    """The module's own loader, and a change after it."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        kind: Any = module.CPU_Accelerator  # type: ignore[attr-defined]
        kind.is_fp16_supported = lambda self: True
        if os.environ.get("PLANTED_FP16") == "unclear":
            kind.supported_dtypes = lambda self: []


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != NAME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


sys.meta_path.insert(0, _Finder())
