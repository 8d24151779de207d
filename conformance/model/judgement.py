"""What a cell came to, before known issues are looked at."""

from __future__ import annotations

import dataclasses

from conformance.model.verdict import Verdict


@dataclasses.dataclass(frozen=True)
class Judgement:
    """A verdict, why, and with NOT_RUN what to do about it.

    Attributes:
        by_integration: whether the integration refused this ground, so that the case's question was never put.
    """

    verdict: Verdict
    reason: str = ""
    remedy: str | None = None
    by_integration: bool = False
