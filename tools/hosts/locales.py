"""Locales that a machine need not have: made from glibc's sources into a folder, without root."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.hosts.errors import EmulationError

_SECONDS = 120.0


def must_be_made(locale: str | None) -> bool:
    """Whether a locale is not part of every system. Pure."""
    return locale not in (None, "C", "POSIX")


def make(locale: str, into: Path) -> None:
    """Make a locale such as `zh_CN.GBK` in the folder `into`, where LOCPATH finds it.

    Raises:
        EmulationError: the sources of the locale or of its encoding are not installed.
    """
    language, _, encoding = locale.partition(".")
    command = ["localedef", "-i", language, "-f", encoding, str(into / locale)]
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", timeout=_SECONDS
    )
    # Exit code 1 is a warning: the encoding need not be a superset of ASCII.
    if ended.returncode > 1 or not (into / locale / "LC_CTYPE").is_file():
        said = " ".join(ended.stderr.split())[-300:]
        raise EmulationError(f"localedef made no locale {locale} ({said}); install the package locales")
