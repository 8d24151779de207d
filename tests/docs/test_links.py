"""The link checker finds what it is there to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.links import broken_links


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<a href="b.html#there">b</a><a href="https://example.org/">out</a><a href="#own">x</a><p id="own">', None),
        ('<a href="b.html#gone">b</a>', "b.html#gone: no such anchor"),
        ('<a href="c.html">c</a>', "c.html: no such file"),
        ('<a href="report/index.html#matrix?q=x">a view of the report</a>', None),
        ('<a href="report/">a folder</a>', "report/: a folder; name its page"),
        ('<a href="/b.html">from the root</a>', "/b.html: does not work under another path"),
        ('<script src="https://cdn.example.org/x.js"></script>', "https://cdn.example.org/x.js: would be loaded"),
        ('<img src="//cdn.example.org/x.png">', "//cdn.example.org/x.png: would be loaded from the network"),
        ('<link rel="stylesheet" href="https://fonts.example.org/x.css">', "x.css: would be loaded from the network"),
        ('<a href="../outside.html">up</a>', "../outside.html: outside of the site"),
    ],
)
def test_links(tmp_path: Path, text: str, found: str | None) -> None:
    site = tmp_path / "site"
    (site / "report").mkdir(parents=True)
    (site / "a.html").write_text(text, encoding="utf-8")
    (site / "b.html").write_text('<h2 id="there">There</h2>', encoding="utf-8")
    (site / "report" / "index.html").write_text('<a href="#matrix">view</a>', encoding="utf-8")
    (tmp_path / "outside.html").write_text("", encoding="utf-8")
    broken = broken_links(site)
    if found is None:
        assert broken == []
    else:
        (told,) = broken
        assert told.startswith("a.html: ")
        assert found in told
