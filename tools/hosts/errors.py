"""What ends the emulation of a host, or the whole command."""

from __future__ import annotations


class EmulationError(Exception):
    """A kind of host could not be emulated after all; says why, in one sentence."""


class UsageError(Exception):
    """The command line is wrong; says what was found and what was expected."""
