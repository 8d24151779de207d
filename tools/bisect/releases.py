"""The releases of a package that an index has, as pip sees it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from packaging.version import InvalidVersion, Version

from tools.bisect.errors import BisectError, TroubleError

SECONDS: Final = 600.0
_OFFLINE: Final = ("Retrying (", "Could not fetch URL", "connection error", "Network is unreachable")


def releases_of(package: str, *, index_url: str | None = None) -> list[str]:
    """All releases for this Python that the index has, oldest first, without pre-releases.

    Args:
        package: a distribution's name.
        index_url: another index than pip's own settings name.

    Raises:
        BisectError: the index knows no such package.
        TroubleError: the index cannot be asked.
    """
    command = [sys.executable, "-m", "pip", "index", "versions", package, "--retries", "1"]
    command += [] if index_url is None else ["--index-url", index_url]
    try:
        ended = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TroubleError(f"the package index cannot be asked for {package}: {error}") from None
    for line in ended.stdout.splitlines():
        label, _, names = line.partition(":")
        if label.strip() == "Available versions":
            return in_order(name.strip() for name in names.split(","))
    said = ended.stderr.strip().splitlines()
    why = next((line for line in said if any(sign in line for sign in _OFFLINE)), None)
    if why is not None:
        raise TroubleError(
            f"the package index cannot be reached for {package}: {why.strip()}; the same command goes on once it can"
        )
    raise BisectError(f"--package: found {package!r}, which the index does not know: {said[-1] if said else 'no word'}")


def in_order(names: Iterable[str]) -> list[str]:
    """Version texts oldest first, each once; what is no version, and local builds of one, left out. Pure."""
    versions: set[Version] = set()
    for name in names:
        try:
            versions.add(Version(name))
        except InvalidVersion:
            continue
    return [str(version) for version in sorted(versions) if version.local is None]


def between(releases: Sequence[str], good: str, bad: str, package: str) -> list[str]:
    """The releases from one end to the other, both included, oldest first. Pure.

    Raises:
        BisectError: an end that is no release, the same release twice, or nothing between the two.
    """
    for option, version in (("--good", good), ("--bad", bad)):
        if version not in releases:
            newest = ", ".join(reversed(releases[-8:])) or "none"
            raise BisectError(f"{option}: found {version!r}, expected a release of {package}, such as {newest}")
    if good == bad:
        raise BisectError(f"--good and --bad: found {good} twice, expected two releases of {package}")
    low, high = sorted((releases.index(good), releases.index(bad)))
    if high - low < 2:
        raise BisectError(
            f"--good {good}, --bad {bad}: no release of {package} lies between them, so there is nothing to search; "
            f"what changed came with {releases[high]}"
        )
    return list(releases[low : high + 1])
