"""What ranks of a lane run import ahead."""

from __future__ import annotations

import importlib

from conformance.matrix import load_matrix
from conformance.run.lane_pool import suite_modules


def test_modules_of_suites() -> None:
    suites = load_matrix().suites
    modules = suite_modules(suites)
    assert len(modules) == len(suites) > 1
    assert all(importlib.import_module(name) for name in modules)
    assert suite_modules(["somebody_elses", "zero"]) == ["conformance.suites.test_zero"]
