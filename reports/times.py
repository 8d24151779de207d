"""Moments and durations, as records write them and as people read them."""

from __future__ import annotations

import datetime


def instant(text: str) -> datetime.datetime | None:
    """An ISO 8601 moment in UTC; None where the text is none. Without an offset it is taken as UTC."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment.astimezone(datetime.UTC)


def minute(moment: datetime.datetime | None) -> str:
    """`2026-03-01 14:05 UTC`."""
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else "at an unknown time"


def span(seconds: float) -> str:
    """A duration in two units at most: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
