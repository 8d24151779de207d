"""A strategy with which Lightning's Fabric trains on DeepSpeed wherever DeepSpeed runs.

    from lightning_fabric import Fabric
    from conformance.reference.fabric import FabricStrategy

    fabric = Fabric(strategy=FabricStrategy(config={"zero_optimization": {"stage": 2}}), accelerator="cpu", devices=2)
    fabric.launch()
    model, optimizer = fabric.setup(model, optimizer)

See `conformance.reference.lightning`, which is the same for Trainer.
"""

from __future__ import annotations

from typing import Any

import torch
from lightning_fabric.plugins.environments import ClusterEnvironment
from lightning_fabric.strategies import DeepSpeedStrategy

from conformance.reference.config import Config
from conformance.reference.lightning_environment import TopologyEnvironment
from conformance.reference.lightning_start import ArgsOptionalStart


class FabricStrategy(ArgsOptionalStart, DeepSpeedStrategy):  # type: ignore[misc]
    """Lightning Fabric's DeepSpeedStrategy on any device, launcher and system.

    Accumulation and clipping are DeepSpeed's alone, by the config: call `fabric.backward` and the optimizer's `step`
    for every micro-batch. The schedule that `fabric.setup` is given is stepped by the engine.

    Where the config makes the optimizer, `fabric.setup(model)` gives an engine that trains; its step is
    `fabric.strategy.model.step()`.

    Args:
        config: DeepSpeed's; a dict, which is left as it is, or the path of a JSON or Hjson file. Without one,
            Lightning's defaults and `options` make it.
        transport: `auto`, `gloo`, `nccl` or `mpi`.
        process_group_backend: Lightning's name for it, which goes before.
        cluster_environment: for ranks that only Lightning knows of (SLURM, LSF); a TopologyEnvironment by default.
        options: Lightning's for DeepSpeedStrategy: stage, offload_optimizer, exclude_frozen_parameters, timeout, ….

    Raises:
        StartError: on `launch`: what would start wrongly or not at all; see `conformance.reference`.
    """

    _config_initialized: bool

    def __init__(
        self,
        config: Config | None = None,
        *,
        transport: str = "auto",
        process_group_backend: str | None = None,
        cluster_environment: ClusterEnvironment | None = None,
        **options: Any,
    ) -> None:
        self.transport = process_group_backend or transport
        super().__init__(config=config, cluster_environment=cluster_environment or TopologyEnvironment(), **options)

    def setup_environment(self) -> None:
        self.accelerator.setup_device(self.root_device)
        self._set_world_ranks()
        self.start_ranks(self.root_device)
        if not self._config_initialized:
            self._format_config()
            self._config_initialized = True

    def _initialize_engine(
        self, model: torch.nn.Module, optimizer: Any = None, scheduler: Any = None
    ) -> tuple[Any, Any, Any]:
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        started = self.start_engine(
            model, self.config, optimizer=optimizer, model_parameters=trainable, lr_scheduler=scheduler
        )
        return started.engine, started.optimizer, started.scheduler
