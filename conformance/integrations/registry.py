"""Finding an integration by its name."""

from __future__ import annotations

import importlib
import importlib.metadata

from conformance.integrations.protocol import Integration

GROUP = "conformance.integrations"
"""The entry point group in which others register theirs: `name = "package.module:object"`, the object an
`Integration`."""

_OURS = {
    "reference": "conformance.integrations.reference:REFERENCE",
    "deepspeed": "conformance.integrations.bare:DEEPSPEED",
}


def names() -> tuple[str, ...]:
    """Every integration that can be named, ours first."""
    theirs = importlib.metadata.entry_points(group=GROUP).names
    return (*_OURS, *sorted(theirs - _OURS.keys()))


def module(name: str) -> str:
    """The module to import ahead in ranks that will drive `name`, which is one of `names()`."""
    if name in _OURS:
        return _OURS[name].partition(":")[0]
    (entry,) = importlib.metadata.entry_points(group=GROUP, name=name)
    return entry.module


def integration(name: str) -> Integration:
    """The integration of that name.

    Raises:
        KeyError: nobody registered the name; says which there are.
        ImportError: what it drives is not installed.
    """
    if name in _OURS:
        module, _, attribute = _OURS[name].partition(":")
        found: Integration = getattr(importlib.import_module(module), attribute)
        return found
    for entry in importlib.metadata.entry_points(group=GROUP, name=name):
        loaded: Integration = entry.load()
        return loaded
    raise KeyError(
        f"no integration {name!r}; there is {', '.join(names())}, "
        f"and others register theirs under the entry point group {GROUP}"
    )
