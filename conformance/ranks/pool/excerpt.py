"""Reading the logs of ranks, whatever is in them and however long they are."""

from __future__ import annotations

from pathlib import Path

HEAD = 4 * 1024
TAIL = 12 * 1024


def excerpt(path: Path, head: int = HEAD, tail: int = TAIL) -> str:
    """The first `head` and last `tail` bytes of a file as text, invalid UTF-8 and NUL replaced; empty if unreadable."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size <= head + tail:
                return _text(file.read(head + tail))
            first = file.read(head)
            file.seek(size - tail)
            last = file.read(tail)
    except OSError:
        return ""
    cut = f"\n… {size - head - tail} bytes left out …\n" if head else ""
    return f"{_text(first)}{cut}{_text(last)}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\0", "�")
