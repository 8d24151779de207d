"""Reading numbers from environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.reference.errors import TopologyError


def integer(environ: Mapping[str, str], name: str, *, low: int) -> int:
    """The variable `name` as an integer of at least `low`.

    Raises:
        TopologyError: it is something else.
    """
    try:
        value = int(environ[name])
    except ValueError:
        value = None
    if value is None or value < low:
        raise TopologyError(
            name, repr(environ[name]), f"an integer of at least {low}", "correct it where the ranks are started"
        )
    return value
