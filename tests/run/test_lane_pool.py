"""What ranks of a lane run import ahead."""

from __future__ import annotations

import importlib

from conformance.matrix import load_matrix
from conformance.run.lane_pool import suite_modules


def test_modules_of_suites() -> None:
    suites = load_matrix().suites
    modules = suite_modules(suites)
    assert {f"conformance.suites.{suite}" for suite in suites} <= set(modules)
    assert all(importlib.import_module(name) for name in modules)
    assert suite_modules(["somebody_elses", "zero"]) == ["conformance.suites.zero"]
