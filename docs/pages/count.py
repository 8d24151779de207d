"""Verdicts counted for a reader: what passed, what did not, what was refused, and what nobody tried."""

from __future__ import annotations

from typing import Final

from conformance.model.verdict import Verdict
from reports.matrix import Tally

HEAD: Final = ("passes", "fails", "refused", "not tested")


def counts(tally: Tally) -> tuple[str, str, str, str]:
    """The numbers under `HEAD`."""
    passes = tally[Verdict.PASS]
    return tuple(f"{number:,}" for number in (passes, tally.tested - passes, tally.refused, tally.untested))  # type: ignore[return-value]
