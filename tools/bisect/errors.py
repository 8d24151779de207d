"""What ends a bisect early."""

from __future__ import annotations


class BisectError(Exception):
    """The question cannot be answered as asked: a wrong version, cell or expectation. Says what to change."""


class TroubleError(Exception):
    """The search could not go on: no network, a flaky cell, a harness error. What was found so far is kept."""
