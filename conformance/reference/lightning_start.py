"""What the strategies for Trainer and Fabric have in common: starting DeepSpeed where Lightning's own would not."""

from __future__ import annotations

import atexit
import datetime
import os
from typing import Any

import torch
from lightning_fabric.plugins.environments import ClusterEnvironment
from lightning_fabric.utilities.seed import reset_seed

from conformance.reference import process_group
from conformance.reference.config import Config, load_config
from conformance.reference.engine import Initialized, initialize
from conformance.reference.errors import TopologyError, TransportError
from conformance.reference.lightning_environment import TopologyEnvironment
from conformance.reference.topology import Topology


class ArgsOptionalStart:
    """Mixed into Lightning's DeepSpeedStrategy, before it.

    Attributes:
        transport: what was asked for: `auto`, `gloo`, `nccl` or `mpi`.
    """

    DEEPSPEED_ENV_VAR: str
    transport: str
    cluster_environment: ClusterEnvironment | None
    _timeout: datetime.timedelta | None

    def start_ranks(self, device: torch.device) -> None:
        """Start torch.distributed through DeepSpeed, or adopt the one that is up.

        Args:
            device: what Lightning gave this rank.

        Raises:
            TransportError: DeepSpeed would compute on another kind of device than Lightning.
            TopologyError: Lightning gave this rank another device than its local rank's.
            StartError: see `conformance.reference.start`.
        """
        from deepspeed.accelerator import get_accelerator

        theirs = get_accelerator().device_name()
        if theirs != device.type:
            raise TransportError(
                "accelerator",
                f"{device.type!r} in Lightning, {theirs!r} in DeepSpeed",
                "the same device in both",
                f"pass accelerator={theirs!r} to Trainer or Fabric, or set DS_ACCELERATOR={device.type}",
            )
        topology = self.topology()
        if device.type != "cpu" and device.index != topology.local_rank:
            raise TopologyError(
                "devices",
                f"{device} for local rank {topology.local_rank}",
                f"{device.type}:{topology.local_rank}: DeepSpeed gives local rank N the device N",
                "pass the number of devices, and choose which with CUDA_VISIBLE_DEVICES",
            )
        reset_seed()
        process_group.start(topology=topology, transport=self.transport, timeout=self._timeout)
        atexit.unregister(process_group.shutdown)
        atexit.register(process_group.shutdown)

    def topology(self) -> Topology:
        """This process's place in its job."""
        environment = self.cluster_environment
        if isinstance(environment, TopologyEnvironment):
            return environment.topology
        assert environment is not None
        return Topology(
            environment.global_rank(),
            environment.world_size(),
            environment.local_rank(),
            None,
            environment.main_address,
            environment.main_port,
            "env",
        )

    def start_engine(self, model: torch.nn.Module, config: Config, **arguments: Any) -> Initialized:
        """DeepSpeed's engine around a model, by `conformance.reference.initialize`."""
        return initialize(model, config, transport=self.transport, **arguments)

    def _load_config(self, config: Config | None) -> dict[str, Any] | None:
        """The config that the strategy keeps and fills in; Lightning's own writes into the caller's dict.

        Raises:
            ConfigError: see `load_config`.
        """
        if config is None:
            config = os.environ.get(self.DEEPSPEED_ENV_VAR)
        return None if config is None else load_config(config)
