"""On PYTHONPATH of an emulated host: DeepSpeed's CPU accelerator answers that fp16 is supported.

PyTorch computes it in software then, which is slow and right. Python imports this module at its start; it waits for
DeepSpeed's own module, so that nothing is imported that would not be, and hands on to an installed sitecustomize.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

TARGET = "deepspeed.accelerator.cpu_accelerator"
HERE = str(Path(__file__).resolve().parent)


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        module.CPU_Accelerator.is_fp16_supported = lambda self: True


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != TARGET:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def _installed_one() -> None:
    """Run the sitecustomize that this one stands in front of, if there is one."""
    elsewhere = [entry for entry in sys.path if str(Path(entry).resolve()) != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


sys.meta_path.insert(0, _Finder())
_installed_one()
