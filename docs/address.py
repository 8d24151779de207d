"""Where the site is published and where its repository is: one setting, and on GitHub none.

`CONFORMANCE_SITE` holds the site's address. On GitHub it need not be set: there it is that of the repository's Pages. A
build that knows no address leaves out what needs one: canonical addresses and the sitemap.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

SITE: Final = "CONFORMANCE_SITE"


def site(environ: Mapping[str, str] = os.environ) -> str:
    """The address of the site's start page, with a slash at its end; empty where it is not known.

    Raises:
        ValueError: the setting is no address.
    """
    given = environ.get(SITE, "")
    if given:
        if not given.startswith(("https://", "http://")):
            raise ValueError(f"{SITE}: found {given!r}, expected an address that begins with https://")
        return given.rstrip("/") + "/"
    owner, _, name = environ.get("GITHUB_REPOSITORY", "").partition("/")
    if not name:
        return ""
    return f"https://{owner.lower()}.github.io/" + ("" if name.lower() == f"{owner.lower()}.github.io" else f"{name}/")


def repository(environ: Mapping[str, str] = os.environ) -> str:
    """The address of the repository, without a slash at its end; empty outside of GitHub."""
    parts = [environ.get(name, "") for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY")]
    return "/".join(parts) if all(parts) else ""
