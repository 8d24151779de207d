"""The error of this package."""

from __future__ import annotations


class WineError(Exception):
    """Something cannot be used as asked; the text says what was found, what was expected, and the remedy."""
