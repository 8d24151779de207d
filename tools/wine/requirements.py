"""The file that says which distributions an environment holds: exact pins in pip's own format."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from tools.wine.errors import WineError

FILE: Final = Path(__file__).with_name("requirements.txt")
BUILD_OPTION: Final = "--no-binary"


@dataclasses.dataclass(frozen=True)
class Pin:
    """One distribution at one version.

    Attributes:
        name: as indexes compare it, such as `pytest-xdist`.
    """

    name: NormalizedName
    version: Version

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


@dataclasses.dataclass(frozen=True)
class Requirements:
    """What an environment holds.

    Attributes:
        pins: in the order of the file, each name once.
        built: the names in `pins` that have no wheel and are built here; such a build must give pure Python.
    """

    pins: tuple[Pin, ...]
    built: frozenset[NormalizedName]

    @property
    def digest(self) -> str:
        """SHA-256 of what decides: not of comments or order."""
        lines = sorted(f"{pin} {pin.name in self.built}" for pin in self.pins)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def read_requirements(path: Path = FILE) -> Requirements:
    """The requirements that a file holds.

    Lines are `name==version` or `--no-binary name`; `#` starts a comment.

    Raises:
        WineError: the file cannot be read, or a line is neither, pins a name twice, or builds one that is not pinned.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WineError(f"{path}: cannot be read: {error}") from None
    pins: dict[NormalizedName, Pin] = {}
    built: dict[NormalizedName, int] = {}
    for number, text in enumerate(lines, start=1):
        line = text.partition("#")[0].strip()
        option, _, name = line.partition(" ")
        if not line:
            continue
        if option == BUILD_OPTION:
            built[canonicalize_name(name.strip())] = number
            continue
        pin = _pin(line, f"{path}:{number}")
        if pin.name in pins:
            raise WineError(f"{path}:{number}: found {pin} after {pins[pin.name]}, expected each name once")
        pins[pin.name] = pin
    if not pins:
        raise WineError(f"{path}: found no pins, expected lines such as numpy==1.26.4")
    for name, number in built.items():
        if name not in pins:
            raise WineError(f"{path}:{number}: found {BUILD_OPTION} {name}, expected a name that the file pins")
    return Requirements(tuple(pins.values()), frozenset(built))


def _pin(line: str, place: str) -> Pin:
    expected = f"expected name==version or {BUILD_OPTION} name"
    try:
        requirement = Requirement(line)
    except InvalidRequirement as error:
        raise WineError(f"{place}: found {line!r}, {expected}: {str(error).splitlines()[0]}") from None
    specifiers = list(requirement.specifier)
    exact = len(specifiers) == 1 and specifiers[0].operator == "==" and not specifiers[0].version.endswith("*")
    if not exact or requirement.marker is not None or requirement.extras or requirement.url is not None:
        # An extra or a marker would be silently dropped: everything is installed without its dependencies.
        raise WineError(f"{place}: found {line!r}, {expected}, without extras, markers and addresses")
    return Pin(canonicalize_name(requirement.name), Version(specifiers[0].version))
