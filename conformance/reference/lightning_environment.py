"""Lightning's question who this process is, answered by `find_topology`."""

from __future__ import annotations

import functools
import os

from lightning_fabric.plugins.environments import LightningEnvironment

from conformance.reference.errors import TopologyError
from conformance.reference.topology import Topology, find_topology


class TopologyEnvironment(LightningEnvironment):  # type: ignore[misc]
    """Ranks by torchrun, mpiexec, the `deepspeed` launcher or variables that were set, told apart without guessing.

    Lightning itself asks each cluster environment that it knows, and for MPI by starting MPI: in a process that no
    mpiexec started, that can end or freeze the process. Here MPI is only touched where mpiexec started this process.

    Where nothing started ranks, it is Lightning's own default, and Trainer or Fabric starts a process a device.

    Args:
        topology: this process's place, where the caller knows better.
    """

    def __init__(self, topology: Topology | None = None) -> None:
        super().__init__()
        self._given = topology

    @functools.cached_property
    def _found(self) -> Topology | None:
        """What started this process says; None where it is left to Lightning to start the others."""
        if self._given is not None:
            return self._given
        if _is_lightnings_child():
            return None
        found = find_topology()
        return None if found.launcher == "none" else found

    @property
    def topology(self) -> Topology:
        """This process's place. The first time, under mpiexec, this is a collective call.

        Raises:
            TopologyError, MpiError: see `find_topology`.
        """
        if self._found is not None:
            return self._found
        world = self.world_size()
        port = self.main_port if world > 1 else None
        return Topology(self.global_rank(), world, self.local_rank(), None, self.main_address, port, "none")

    @property
    def creates_processes_externally(self) -> bool:
        return super().creates_processes_externally if self._found is None else True

    def global_rank(self) -> int:
        return super().global_rank() if self._found is None else self._found.rank

    def set_global_rank(self, rank: int) -> None:
        if self._found is None:
            super().set_global_rank(rank)

    def world_size(self) -> int:
        return super().world_size() if self._found is None else self._found.world_size

    def set_world_size(self, size: int) -> None:
        if self._found is None:
            super().set_world_size(size)

    def local_rank(self) -> int:
        return super().local_rank() if self._found is None else self._found.local_rank

    def node_rank(self) -> int:
        if self._found is None:
            return int(super().node_rank())
        return (self._found.rank - self._found.local_rank) // (self._found.local_size or self._found.world_size)

    def validate_settings(self, num_devices: int, num_nodes: int) -> None:
        """See to it that Trainer or Fabric was told of as many devices as there are ranks.

        Raises:
            TopologyError: it was not.
        """
        if self._found is None or num_devices * num_nodes == self._found.world_size:
            return
        raise TopologyError(
            "devices, num_nodes",
            f"devices={num_devices}, num_nodes={num_nodes}",
            f"a product of {self._found.world_size}, the ranks that launcher `{self._found.launcher}` started",
            "pass devices=, the ranks on each host, and num_nodes=, the hosts, to Trainer or Fabric",
        )

    def teardown(self) -> None:
        """Leave the environment as it is: Lightning's takes WORLD_SIZE away, and the next Trainer finds no ranks."""


def _is_lightnings_child() -> bool:
    """Lightning tells the processes that it starts everything but their rank, which they count themselves."""
    return "RANK" not in os.environ and {"LOCAL_RANK", "NODE_RANK", "WORLD_SIZE"} <= os.environ.keys()
