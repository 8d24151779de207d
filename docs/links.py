"""Following the links of a built site: each page, file and anchor that a page names must be there."""

from __future__ import annotations

import functools
import urllib.parse
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

OWN_ANCHORS = "report"
"""The report's fragments name views of its script, and no elements; its own tests follow them."""


def broken_links(site: Path) -> list[str]:
    """What the pages below `site` name that is not there, each as `page: target: why`.

    Addresses with a scheme or a host are not looked at, unless a page would load something from there by itself.
    """
    read = functools.cache(_Page.read)
    found: list[str] = []
    for path in sorted(site.rglob("*.html")):
        if OWN_ANCHORS in path.relative_to(site).parts:
            continue
        for target, loaded in read(path).targets:
            why = _why_broken(site, path, target, loaded, read)
            if why:
                found.append(f"{path.relative_to(site).as_posix()}: {target}: {why}")
    return found


def _why_broken(site: Path, path: Path, target: str, loaded: bool, read: functools._lru_cache_wrapper[_Page]) -> str:
    parts = urllib.parse.urlsplit(target)
    if parts.scheme or parts.netloc:
        return "would be loaded from the network" if loaded and parts.scheme != "data" else ""
    if parts.path.startswith("/"):
        return "does not work under another path, or from a folder"
    there = path if not parts.path else (path.parent / urllib.parse.unquote(parts.path)).resolve()
    if not there.is_file():
        return "a folder; name its page, which file: addresses need" if there.is_dir() else "no such file"
    if not there.is_relative_to(site.resolve()):
        return "outside of the site"
    anchor = urllib.parse.unquote(parts.fragment)
    if there.suffix == ".html" and anchor and OWN_ANCHORS not in there.relative_to(site.resolve()).parts:
        return "" if anchor in read(there).anchors else "no such anchor"
    return ""


class _Page(HTMLParser):
    """The targets and anchors of one page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.anchors: set[str] = set()
        self.targets: list[tuple[str, bool]] = []
        """Each with whether a browser loads it without being asked."""

    @classmethod
    def read(cls, path: Path) -> _Page:
        page = cls()
        page.feed(path.read_text(encoding="utf-8"))
        page.close()
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.targets += [(target, loaded) for target, loaded in _targets(tag, values)]


def _targets(tag: str, values: dict[str, str]) -> Iterator[tuple[str, bool]]:
    if "src" in values:
        yield values["src"], True
    if "href" in values and tag in ("a", "link"):
        yield values["href"], tag == "link" and values.get("rel") != "canonical"
