"""The picture of the report that README and start page show."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

PICTURE = Path(__file__).with_name("images") / "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
SIZE = (1280, 860)
"""Width and height in pixels."""


class PictureError(Exception):
    """No picture could be taken; says why."""


def take_picture(page: Path, into: Path = PICTURE) -> Path:
    """Photograph the first screen of a report with a headless browser.

    Raises:
        PictureError: no browser was found, or it took no picture.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise PictureError(f"found no browser on PATH, expected one of {', '.join(BROWSERS)}; install Chromium")
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # Without its script the page tells the days of runs, and not how long ago they were.
        copy = Path(folder).resolve() / "report.html"
        copy.write_text(re.sub(r"(?s)<script\b.*?</script>", "", page.read_text(encoding="utf-8")), encoding="utf-8")
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            f"--user-data-dir={Path(folder) / 'profile'}",
            f"--window-size={SIZE[0]},{SIZE[1]}",
            f"--screenshot={into.resolve()}",
            # A browser's sandbox does not work for root, as in containers.
            *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
            copy.as_uri(),
        ]
        before = into.stat().st_mtime_ns if into.exists() else None
        try:
            subprocess.run(command, capture_output=True, timeout=120, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise PictureError(f"{browser}: took no picture: {error}") from None
    if not into.exists() or into.stat().st_mtime_ns == before:
        raise PictureError(f"{browser}: ended well, and wrote no {into}")
    return into
