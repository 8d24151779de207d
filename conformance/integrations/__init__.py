"""Integrations: what starts DeepSpeed, each behind the same small protocol."""

from conformance.integrations.protocol import Batch, Integration, Session
from conformance.integrations.registry import Entry, entry, integration, missing, names

__all__ = ["Batch", "Entry", "Integration", "Session", "entry", "integration", "missing", "names"]
