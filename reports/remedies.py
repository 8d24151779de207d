"""Remedies that fit the platform: a record of before probes knew better may tell a Windows user to call apt-get."""

from __future__ import annotations

import re
from typing import Final

from conformance.model.record import Record

_LINUX_ONLY: Final = re.compile(r"\bop (?:async_io|pin_memory)\b")
"""Ops that DeepSpeed has no source of for Windows."""
_DEBIAN: Final = re.compile(r"\bapt(?:-get)? install [\w.+ -]+?(?:, then |; |, |$)")


def fitting(record: Record) -> Record:
    """The record with a remedy that can be followed on its platform. Pure."""
    if not record.remedy or record.provenance.host.os != "windows":
        return record
    if _LINUX_ONLY.search(record.reason):
        return record.model_copy(update={"remedy": "run it on a Linux lane: Windows has no such op"})
    remedy = _DEBIAN.sub("", record.remedy).strip()
    return record.model_copy(update={"remedy": remedy or None}) if remedy != record.remedy else record
