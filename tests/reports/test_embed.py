"""Data inside a page stays data."""

from __future__ import annotations

import base64
import gzip
import html.parser
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reports.embed import Pool, script_json, squeezed

NASTY = "</script><script>alert(1)</script><!-- \u2028\u2029 ]]> & \\ \" ' \x00"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class Scripts(html.parser.HTMLParser):
    """The contents of the script elements of a page, as a browser finds them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag == "script":
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self.texts:
            self.texts[-1] += data


@given(JSON)
@example(NASTY)
@example({NASTY: [NASTY]})
def test_a_script_element_holds_it_whole(value: object) -> None:
    text = script_json(value)
    for forbidden in ("<", ">", "&", "\u2028", "\u2029"):
        assert forbidden not in text
    page = Scripts()
    page.feed(f'<script type="application/json">{text}</script>')
    page.close()
    assert page.tags == ["script"]
    assert json.loads(page.texts[0]) == value


@given(JSON)
@example(NASTY)
def test_a_block_can_be_opened_again(value: object) -> None:
    block = squeezed(value)
    assert block == squeezed(value)
    assert json.loads(gzip.decompress(base64.b64decode(block, validate=True))) == value


def test_a_lone_surrogate_does_not_break_a_block() -> None:
    assert json.loads(gzip.decompress(base64.b64decode(squeezed("a\udce9b")))) == "a?b"


def test_nan_is_refused_rather_than_written_as_something_that_is_no_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json(float("nan"))


def test_a_pool_keeps_each_value_once() -> None:
    pool = Pool()
    assert [pool.number(value) for value in ("a", {"b": 1}, "a", {"b": 1}, "1", 1)] == [0, 1, 0, 1, 2, 3]
    assert pool.values == ["a", {"b": 1}, "1", 1]
