"""Integrations: what starts DeepSpeed, each behind the same small protocol."""

from conformance.integrations.protocol import Batch, Integration, Session, Training
from conformance.integrations.registry import Entry, entry, integration, missing, names, start

__all__ = ["Batch", "Entry", "Integration", "Session", "Training", "entry", "integration", "missing", "names", "start"]
