"""What a Windows environment was made from, written into it when it is finished."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, Final

from tools.wine.requirements import Requirements

FILE_NAME: Final = "wine.json"
LAYOUT: Final = 1
"""Goes up when an environment made by earlier code is of no use to this one."""

SITE_FILE: Final = Path(__file__).with_name("sitecustomize.py")


@dataclasses.dataclass(frozen=True)
class Stamp:
    """All that decides what an environment holds; two equal stamps make equal environments.

    Attributes:
        folder: where it lies; the launchers in Scripts hold that path.
        python: SHA-256 of the interpreter's files.
        requirements: the digest of the requirements.
        site: SHA-256 of the sitecustomize that goes in.
        wine: what `wine64 --version` says.
        finished: False from when building starts until it has ended well.
    """

    folder: str
    python: str
    requirements: str
    site: str
    wine: str
    layout: int = LAYOUT
    finished: bool = True

    def write(self, folder: Path) -> None:
        """Mark the environment in `folder` with this."""
        text = json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True)
        (folder / FILE_NAME).write_text(f"{text}\n", encoding="utf-8")

    def differences(self, found: Stamp | None) -> list[str]:
        """The names of what differs between an environment on disk and this; empty when it can be used as it is."""
        if found is None:
            return ["all: it is not there"]
        return [
            field.name for field in dataclasses.fields(self) if getattr(self, field.name) != getattr(found, field.name)
        ]


def stamp_for(folder: Path, interpreter: Path, requirements: Requirements, wine: str) -> Stamp:
    """The stamp of an environment to be made.

    Args:
        folder: where it is to be; absolute.
        interpreter: the folder of the Windows Python.
        wine: what `wine64 --version` says.
    """
    files = sorted([interpreter / "python.exe", *interpreter.glob("python3*.dll")])
    return Stamp(
        folder=str(folder),
        python=_digest(*files),
        requirements=requirements.digest,
        site=_digest(SITE_FILE),
        wine=wine,
    )


def read_stamp(folder: Path) -> Stamp | None:
    """The stamp in `folder`; None when there is none, or it is not one of this layout's."""
    try:
        content: Any = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        return Stamp(**content)
    except (OSError, ValueError, TypeError):
        return None


def _digest(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
