"""Texts that are cut, so that what they end with stays: the cause of an error stands last."""

from __future__ import annotations


def cut(text: str, head: int, tail: int) -> str:
    """`text` with what lies between its first `head` and last `tail` characters left out. Pure."""
    return text if len(text) <= head + tail else f"{text[:head]} […] {text[-tail:]}"
