"""Writing report files so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


class WriteError(Exception):
    """A report file could not be written; names it and the reason."""


def write_text(path: Path, text: str) -> None:
    """Replace a UTF-8 file (newlines as given); see `write_bytes`."""
    write_bytes(path, text.encode("utf-8", errors="replace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file in one step; its folder is made if need be.

    Raises:
        WriteError: the folder or the file cannot be written; what was there before is still there.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        # mkstemp files are private; a report is for everyone whom the folder admits.
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        why = error.strerror or str(error)
        raise WriteError(f"{path}: cannot write the report ({why}); choose a folder that you may write to") from None
