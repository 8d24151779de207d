"""Finding an integration by its name, and what it needs to be installed."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata

from packaging.requirements import Requirement

from conformance.integrations.protocol import Integration, Session, Training
from conformance.model.setting import Setting

GROUP = "conformance.integrations"
"""The entry point group in which others register theirs: `name = "package.module:object"`, the object an
`Integration`."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """Where an integration is, and what it drives.

    Attributes:
        place: `package.module:object`.
        libraries: the distributions that it drives beside DeepSpeed, the foremost first.
        extra: the optional extra of this project, and the group of a stack, that brings them.
    """

    place: str
    libraries: tuple[str, ...] = ()
    extra: str | None = None

    @property
    def module(self) -> str:
        """The module to import."""
        return self.place.partition(":")[0]


_OURS = {
    "reference": Entry("conformance.integrations.reference:REFERENCE"),
    "deepspeed": Entry("conformance.integrations.bare:DEEPSPEED"),
    "lightning": Entry("conformance.integrations.lightning:LIGHTNING", ("pytorch-lightning",), "lightning"),
    "lightning-own": Entry("conformance.integrations.lightning_own:LIGHTNING_OWN", ("pytorch-lightning",), "lightning"),
    "fabric": Entry("conformance.integrations.fabric:FABRIC", ("pytorch-lightning",), "lightning"),
    "accelerate": Entry("conformance.integrations.accelerate:ACCELERATE", ("accelerate",), "accelerate"),
    "transformers": Entry(
        "conformance.integrations.transformers:TRANSFORMERS", ("transformers", "accelerate"), "transformers"
    ),
}


def names() -> tuple[str, ...]:
    """Every integration that can be named, ours first."""
    theirs = importlib.metadata.entry_points(group=GROUP).names
    return (*_OURS, *sorted(theirs - _OURS.keys()))


def entry(name: str) -> Entry:
    """What is known of an integration without importing it.

    Raises:
        KeyError: nobody registered the name; says which there are.
    """
    if name in _OURS:
        return _OURS[name]
    for found in importlib.metadata.entry_points(group=GROUP, name=name):
        needed = [Requirement(text) for text in (found.dist.requires or [])] if found.dist else []
        libraries = [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
        own = [found.dist.name] if found.dist else []
        return Entry(found.value, (*own, *libraries))
    raise KeyError(
        f"no integration {name!r}; there is {', '.join(names())}, "
        f"and others register theirs under the entry point group {GROUP}"
    )


def missing(name: str) -> str | None:
    """The first distribution that `name` drives and that is not installed here; None when all are."""
    for library in entry(name).libraries:
        try:
            importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            return library
    return None


def integration(name: str) -> Integration:
    """The integration of that name.

    Raises:
        KeyError: nobody registered the name; says which there are.
        ImportError: what it drives is not installed.
    """
    place = entry(name).place
    module, _, attribute = place.partition(":")
    found: Integration = getattr(importlib.import_module(module), attribute)
    return found


def start(setting: Setting, training: Training) -> Session:
    """What is to be trained, in training by the setting's integration.

    Raises:
        KeyError, ImportError: as `integration` does.
    """
    return integration(setting.integration).start(setting, training)
