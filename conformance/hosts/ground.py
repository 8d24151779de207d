"""What one process of a run may use of its host."""

from __future__ import annotations

import dataclasses

from conformance.hosts.bundles import Bundles


@dataclasses.dataclass(frozen=True)
class Ground:
    """What one process of a run may use of its host, beyond what every process there may.

    Attributes:
        devices: the only GPUs for its ranks, as CUDA_VISIBLE_DEVICES names them; None leaves that variable alone.
        bundles: where checkpoints of other lanes come from, and where ours go.
    """

    devices: tuple[str, ...] | None = None
    bundles: Bundles = dataclasses.field(default_factory=Bundles)

    def variables(self) -> dict[str, str]:
        """What its ranks start with."""
        return {} if self.devices is None else {"CUDA_VISIBLE_DEVICES": ",".join(self.devices)}
