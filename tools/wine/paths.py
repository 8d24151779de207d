r"""Paths as Linux and as Windows under Wine write them: drive Z: is the root of the Linux file system.

Wine compares names without regard to case, and cannot name a Linux file whose name Windows forbids.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath

from tools.wine.errors import WineError

ROOT_DRIVE = "Z:"
SYSTEM_DRIVE = "C:"
SYSTEM_FOLDER = "drive_c"
"""Where in a prefix drive C: lies."""

FORBIDDEN = frozenset('<>:"|?*\\')
DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})


def to_windows(path: PurePosixPath) -> str:
    r"""The Windows path of an absolute Linux one: `/srv/data ü` is `Z:\srv\data ü`.

    Raises:
        WineError: the path is relative, or holds a name that Windows cannot have.
    """
    if not path.is_absolute():
        raise WineError(f"{path}: found a relative path, expected an absolute one")
    for name in path.parts[1:]:
        reason = _unnameable(name)
        if reason is not None:
            raise WineError(
                f"{path}: Windows programs cannot open it: {name!r} {reason}; rename it or use another folder"
            )
    return "\\".join([ROOT_DRIVE, *path.parts[1:]]) if len(path.parts) > 1 else f"{ROOT_DRIVE}\\"


def to_linux(text: str, prefix: Path | None = None) -> Path:
    r"""The Linux path of an absolute Windows one: `Z:\srv\data` is `/srv/data`.

    Args:
        prefix: the Wine prefix whose drive C: is meant; without it only Z: is known.

    Raises:
        WineError: the path is relative, on another drive or a network one, or climbs above the drive with `..`.
    """
    path = PureWindowsPath(text)
    if not path.is_absolute():
        raise WineError(f"{text!r}: found no absolute Windows path, expected one such as {ROOT_DRIVE}\\srv\\data")
    parts: list[str] = []
    for name in path.parts[1:]:
        if name != "..":
            parts.append(name)
        elif parts:
            parts.pop()
    drive = path.drive.upper()
    if drive == ROOT_DRIVE:
        return Path("/", *parts)
    if drive == SYSTEM_DRIVE and prefix is not None:
        return prefix.joinpath(SYSTEM_FOLDER, *parts)
    known = f"{ROOT_DRIVE} or {SYSTEM_DRIVE}" if prefix is not None else ROOT_DRIVE
    raise WineError(f"{text!r}: found drive {path.drive}, expected {known}")


def _unnameable(name: str) -> str | None:
    """Why Windows cannot have a file of this name; None when it can."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "is not UTF-8"
    found = sorted(set(name) & FORBIDDEN) + [character for character in name if ord(character) < 32]
    if found:
        return f"holds {found[0]!r}"
    if name != ".." and name[-1] in ". ":
        return "ends with a dot or a space"
    if name.partition(".")[0].rstrip().lower() in DEVICES:
        return "is a device's name"
    return None
