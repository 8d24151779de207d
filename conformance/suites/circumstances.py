"""Changing what surrounds DeepSpeed inside a rank, and putting it back."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def without_module(name: str) -> Iterator[None]:
    """Let every import of `name` fail as if it were not installed (ModuleNotFoundError)."""
    inside = [found for found in sys.modules if found == name or found.startswith(f"{name}.")]
    taken = {found: sys.modules.pop(found) for found in inside}
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
        sys.modules.update(taken)
