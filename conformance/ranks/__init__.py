"""Starting, feeding, watching and ending ranks.

`open_pool` gives a pool; `RankPool.run` takes a job and comes back with an outcome, whatever the ranks did.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from conformance.ranks.job import Job
from conformance.ranks.outcome import Outcome, RankError, RankReport, RankStatus

if TYPE_CHECKING:
    from conformance.ranks.pool.opening import open_pool
    from conformance.ranks.pool.pool import RankPool

__all__ = ["Job", "Outcome", "RankError", "RankPool", "RankReport", "RankStatus", "open_pool"]

_FOR_THE_HARNESS = {"open_pool": "conformance.ranks.pool.opening", "RankPool": "conformance.ranks.pool.pool"}
"""Names that ranks, which import this package too, have no use for."""


def __getattr__(name: str) -> Any:
    if name not in _FOR_THE_HARNESS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_FOR_THE_HARNESS[name]), name)
