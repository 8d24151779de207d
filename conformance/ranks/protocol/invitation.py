"""What a process finds in its environment that shall connect back to the harness."""

from __future__ import annotations

import dataclasses
import json
import os
import sys

from conformance.ranks.protocol import channel

VARIABLE = "CONFORMANCE_RANKS_INVITATION"


@dataclasses.dataclass(frozen=True)
class Invitation:
    """Where to connect, and what to do before.

    Attributes:
        port: of the harness, on this host.
        secret: to be shown there.
        roots: folders to import from, ahead of the interpreter's own.
        preload: modules to import ahead.
    """

    port: int
    secret: str
    roots: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()

    def variable(self) -> dict[str, str]:
        """The variable that carries it."""
        return {VARIABLE: json.dumps(dataclasses.astuple(self))}

    def connect(self) -> channel.Channel:
        """Connect back.

        Raises:
            OSError: the harness is gone.
        """
        return channel.connect(self.port, self.secret)


def accept() -> Invitation:
    """Take this process's invitation out of its environment, so that none of its children finds it, and add the roots
    to its path."""
    port, secret, roots, preload = json.loads(os.environ.pop(VARIABLE))
    sys.path[:0] = [root for root in roots if root not in sys.path]
    return Invitation(port, secret, tuple(roots), tuple(preload))
