"""What ends the emulation of a host, or the whole command."""

from __future__ import annotations

from typing import Final

UNARRANGED: Final = 125
"""The exit code of a run whose host could not be arranged; a lane run has none above 3."""


class EmulationError(Exception):
    """A kind of host could not be emulated after all; says why, in one sentence."""


class UsageError(Exception):
    """The command line is wrong; says what was found and what was expected."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came: an interrupt of which the programs that this one has started know nothing."""
