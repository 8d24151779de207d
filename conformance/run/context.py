"""What is the same for all cells of a run in one process."""

from __future__ import annotations

import dataclasses

from conformance.hosts.ground import Ground
from conformance.matrix import Matrix
from conformance.matrix.lane import Lane
from conformance.model.record import Provenance


@dataclasses.dataclass(frozen=True)
class RunContext:
    """What is the same for all cells of a run in one process.

    Attributes:
        device: `cpu` or `cuda`.
        ground: what this process may use of its host.
        cold: whether every cell runs in fresh interpreters.
    """

    matrix: Matrix
    lane: Lane
    transport: str
    device: str
    stack: str
    provenance: Provenance
    ground: Ground = dataclasses.field(default_factory=Ground)
    cold: bool = False
