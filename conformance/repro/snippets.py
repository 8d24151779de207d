"""Pieces of code that short forms of several suites have."""

from __future__ import annotations

import textwrap


def lines(*parts: str) -> str:
    """Code one after another."""
    return "\n".join(textwrap.dedent(part).strip() for part in parts if part)


def refused(call: str, says: str, wanted: str) -> str:
    """Make a call, and fail unless it is refused with an error that says something; has `rank`.

    Args:
        says: a condition of `text`, the error's class and message. wanted: what that is, for people.
    """
    return f"""
try:
    {call}
except Exception as error:
    text = f"{{type(error).__name__}}: {{error}}"
    told = f"rank {{rank}} raised {{text!r}}, expected {wanted}"
    assert {says}, told
else:
    raise AssertionError("not refused, expected {wanted}")
"""
