"""Reading numbers and addresses from environment variables."""

from __future__ import annotations

import ipaddress
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


def address(environ: Mapping[str, str], name: str) -> str:
    """The variable `name` as a host's name or address, an IPv6 address without the brackets that it has in URLs."""
    text = environ[name].strip()
    inner = text[1:-1]
    return inner if text == f"[{inner}]" and _is_ipv6(inner) else text


def is_host(text: str) -> bool:
    """Whether this may be a host's name or address: not one with a port, in brackets, or of a URL."""
    return not set(text) & set("[]/:") or _is_ipv6(text)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
