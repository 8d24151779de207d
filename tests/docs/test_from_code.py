"""The reference's parts: what they say, and that text stays text."""

from __future__ import annotations

import pydantic
import pytest

from docs import from_code, markdown
from docs.fields import Field, fields, meanings_of, models_in


class Inner(pydantic.BaseModel):
    """Inside."""

    value: float = 1.5


class Outer(pydantic.BaseModel):
    """Outside.

    Attributes:
        name, other: told in
            the class.
    """

    name: str
    other: int | None = None
    inner: tuple[Inner, ...] = ()
    """Told below."""
    by_name: dict[str, list[int]] = pydantic.Field(default_factory=dict)


def test_fields_say_kind_default_and_meaning() -> None:
    assert fields(Outer) == [
        Field("name", "text", "", "told in the class."),
        Field("other", "whole number or none", "none", "told in the class."),
        Field("inner", "list of Inner", "empty", "Told below."),
        Field("by_name", "table of list of whole number", "empty", ""),
    ]
    assert fields(Inner) == [Field("value", "number", "`1.5`", "")]
    assert models_in(Outer) == [Outer, Inner]
    assert "inner" in meanings_of(Outer)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a `b*c` d", "a `b*c` d"),
        ("<script> [x](y) *z* _u_", r"\<script\> \[x\](y) \*z\* \_u\_"),
        ("two\nlines", "two lines"),
    ],
)
def test_text_from_files_is_no_markup(words: str, expected: str) -> None:
    assert markdown.text(words) == expected


def test_a_bar_does_not_end_a_cell() -> None:
    assert markdown.table(("a", "b"), [("`x|y`", "z")]) == "| a | b |\n| --- | --- |\n| `x\\|y` | z |"


def test_each_part_says_something() -> None:
    for name, part in from_code.PARTS.items():
        if name != "programs":  # That one starts each of them; the site's tests do so anyway.
            assert len(part().splitlines()) >= 3, name
