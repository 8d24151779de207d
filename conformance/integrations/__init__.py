"""Integrations: what starts DeepSpeed, each behind the same small protocol."""

from conformance.integrations.protocol import Batch, Integration, Session
from conformance.integrations.registry import integration, module, names

__all__ = ["Batch", "Integration", "Session", "integration", "module", "names"]
