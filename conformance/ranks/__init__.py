"""Starting, feeding, watching and ending ranks.

`open_pool` gives a pool; `RankPool.run` takes a job and comes back with an outcome, whatever the ranks did.
"""

from __future__ import annotations

from conformance.ranks.job import Job
from conformance.ranks.opening import open_pool
from conformance.ranks.outcome import Outcome, RankError, RankReport, RankStatus
from conformance.ranks.pool import RankPool

__all__ = ["Job", "Outcome", "RankError", "RankPool", "RankReport", "RankStatus", "open_pool"]
