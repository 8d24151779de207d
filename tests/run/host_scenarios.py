"""What a rank does in place of finding out what its host can do."""

from __future__ import annotations

import os
import time

from conformance.hosts import capabilities
from conformance.model.setting import Observation, Setting


def _hang() -> bool:
    time.sleep(600)
    return True


def _die() -> bool:
    os._exit(7)


def _fail() -> bool:
    raise OSError("planted")


def find(setting: Setting) -> Observation:
    """As the real one, with finders that fail in all ways."""
    planted = {"fails": _fail, "hangs": _hang, "dies": _die, "dies_too": _die, "says_yes": lambda: True}
    capabilities.FINDERS = {**capabilities.FINDERS, **planted}  # type: ignore[misc]
    return capabilities.find(setting)


def raise_at_once(setting: Setting) -> Observation:
    """Come to no question."""
    raise ImportError("no module named deepspeed")
