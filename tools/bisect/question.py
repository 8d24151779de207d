"""What a bisect is asked."""

from __future__ import annotations

import hashlib

from conformance.model.record import Frozen


class Question(Frozen):
    """All that decides the answers; two equal questions may share them.

    Attributes:
        cell: a cell's id.
        lane, transport, stack, integration: as for a run; `transport` None for the lane's first.
        package: the distribution of which releases are tried.
        good, bad: its versions at the ends; either may be the older one.
        any_change: the ends need only differ in their verdict, and nothing says which is the good one.
        sources: the harness's own commit; other sources may ask the cell differently.
    """

    cell: str
    lane: str
    transport: str | None
    stack: str
    integration: str
    package: str
    good: str
    bad: str
    any_change: bool
    sources: str

    @property
    def slug(self) -> str:
        """A file name for this question, whatever the commit."""
        digest = hashlib.sha256(self.model_dump_json(exclude={"sources"}).encode("utf-8")).hexdigest()
        return f"{self.package}-{self.good}-{self.bad}-{digest[:8]}"
