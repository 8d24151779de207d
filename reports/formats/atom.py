"""An Atom feed (RFC 4287) of what newly fails and newly works: an entry a published run that changed something."""

from __future__ import annotations

import datetime
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from reports.formats.junit import legal
from reports.news import Change, News
from reports.times import instant
from reports.words import plural

ATOM: Final = "http://www.w3.org/2005/Atom"
_IDS: Final = uuid.UUID("4f5c8f5e-6a0e-5a3c-9a52-2f2f0f8f3b11")
"""Of this feed; the ids below it must stay the same for ever, or readers show old entries as new."""
MOST_ENTRIES: Final = 50
MOST_CELLS: Final = 100
"""How many cells an entry lists."""


def render(news: Iterable[News], *, built: datetime.datetime, feed: str = "", page: str = "") -> str:
    """The text of the feed.

    Args:
        news: the newest first.
        built: what the feed is dated with where it has no entry.
        feed, page: the addresses of the feed and of the page that it is about; empty where the site's is not known.
    """
    ET.register_namespace("", ATOM)
    some = list(news)[:MOST_ENTRIES]
    root = ET.Element(f"{{{ATOM}}}feed", {"{http://www.w3.org/XML/1998/namespace}lang": "en"})
    _add(root, "title", "DeepSpeed conformance: what newly fails and newly works")
    _add(root, "id", _IDS.urn)
    _add(root, "updated", _moment(some[0].after.started, built) if some else _written(built))
    _add(_add(root, "author"), "name", "DeepSpeed conformance")
    if feed:
        _add(root, "link", rel="self", type="application/atom+xml", href=feed)
    if page:
        _add(root, "link", rel="alternate", type="text/html", href=page)
    for one in some:
        entry = _add(root, "entry")
        _add(entry, "title", title(one))
        _add(entry, "id", uuid.uuid5(_IDS, f"{one.after.series} {one.after.run}").urn)
        _add(entry, "updated", _moment(one.after.started, built))
        if page:
            _add(entry, "link", rel="alternate", type="text/html", href=page)
        _add(entry, "content", _content(one), type="html")
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def title(news: News) -> str:
    """`linux_gloo · gloo · pinned · reference: 3 cells newly fail, 1 newly works`."""
    fails, works = len(news.fails), len(news.works)
    parts = []
    if fails:
        parts.append(f"{plural(fails, 'cell')} newly {'fails' if fails == 1 else 'fail'}")
    if works:
        parts.append(
            f"{works:,} {'' if fails else 'cell ' if works == 1 else 'cells '}newly {'works' if works == 1 else 'work'}"
        )
    return f"{news.after.series.replace('~', ' · ')}: {', '.join(parts)}"


def _content(news: News) -> str:
    text = [f"<p>Compared with the run of {escape(news.before.started[:10])}.</p>"]
    if news.releases:
        versions = "; ".join(f"{name} {old} → {new}" for name, (old, new) in news.releases.items())
        text.append(f"<p>Other versions: {escape(versions)}.</p>")
    if news.before.commit != news.after.commit:
        text.append(
            f"<p>The harness changed too, from commit {escape(news.before.commit[:10])} to "
            f"{escape(news.after.commit[:10])}: a cell may check more than it did before.</p>"
        )
    text += _list("Newly fails", news.fails) + _list("Newly works", news.works)
    return "\n".join(text)


def _list(heading: str, changes: Sequence[Change]) -> list[str]:
    if not changes:
        return []
    lines = [
        f"<li><code>{escape(change.cell)}</code>: {change.before.value} → {change.after.value}</li>"
        for change in changes[:MOST_CELLS]
    ]
    more = len(changes) - MOST_CELLS
    return [f"<h2>{heading}</h2>", "<ul>", *lines, *([f"<li>and {more:,} more</li>"] if more > 0 else []), "</ul>"]


def _add(parent: ET.Element, name: str, text: str = "", **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, f"{{{ATOM}}}{name}", attributes)
    if text:
        element.text = legal(text)
    return element


def _moment(text: str, otherwise: datetime.datetime) -> str:
    return _written(instant(text) or otherwise)


def _written(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
