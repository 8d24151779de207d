"""The one error of this room."""

from __future__ import annotations


class MatrixError(Exception):
    """A matrix file, or a selection from it, is wrong; the message names file, key, found and expected."""
