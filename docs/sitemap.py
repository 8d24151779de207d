"""The sitemap: the address of every page that a search engine should know."""

from __future__ import annotations

import urllib.parse
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

NAME: Final = "sitemap.xml"
NAMESPACE: Final = "http://www.sitemaps.org/schemas/sitemap/0.9"
LEFT_OUT: Final = ("404.html", "search.html", "genindex.html", "py-modindex.html")


def render(site: Path, address: str) -> str:
    """The text of the sitemap of what was built into `site` and will be at `address`, which ends in a slash."""
    ET.register_namespace("", NAMESPACE)
    root = ET.Element(f"{{{NAMESPACE}}}urlset")
    for page in pages(site):
        url = ET.SubElement(root, f"{{{NAMESPACE}}}url")
        ET.SubElement(url, f"{{{NAMESPACE}}}loc").text = address + urllib.parse.quote(page)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def pages(site: Path) -> list[str]:
    """The pages below the site's root that are worth finding."""
    found = (path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html")))
    return [page for page in found if page not in LEFT_OUT and not page.startswith("_")]
