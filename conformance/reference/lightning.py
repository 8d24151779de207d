"""A strategy with which Lightning's Trainer trains on DeepSpeed wherever DeepSpeed runs.

    import pytorch_lightning
    from conformance.reference.lightning import TrainerStrategy

    trainer = pytorch_lightning.Trainer(
        strategy=TrainerStrategy(config={"zero_optimization": {"stage": 2}, "zero_allow_untested_optimizer": True}),
        accelerator="cpu", devices=2, max_steps=100, accumulate_grad_batches=2, gradient_clip_val=0.5,
    )
    trainer.fit(module, batches, ckpt_path="last")

The same script runs under the `deepspeed` launcher and mpiexec, on Linux under torchrun too, and by itself, on CPUs and
GPUs, on Linux and Windows. For Fabric there is `conformance.reference.fabric`.

Besides what the other modules here need, this one needs pytorch-lightning. It subclasses Lightning's DeepSpeedStrategy
and replaces what works on CUDA alone, or does not do what it says; docs/lightning-proposal.md says what and why.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from lightning_fabric.plugins.environments import ClusterEnvironment
from pytorch_lightning.strategies import DeepSpeedStrategy
from pytorch_lightning.strategies.deepspeed import remove_module_hooks

from conformance.reference.config import Config
from conformance.reference.errors import ConfigError
from conformance.reference.lightning_environment import TopologyEnvironment
from conformance.reference.lightning_start import ArgsOptionalStart


class TrainerStrategy(ArgsOptionalStart, DeepSpeedStrategy):  # type: ignore[misc]
    """Lightning's DeepSpeedStrategy on any device, launcher and system, with each thing decided in one place.

    - Ranks come from `find_topology`, the transport from `choose_transport`, the engine from
      `conformance.reference.initialize`: no args object, no CUDA, no MPI where none started the ranks.
    - Trainer alone says where a gradient accumulation ends, at the end of an epoch too, and alone divides the loss.
    - DeepSpeed alone clips; a norm in both Trainer and config is refused unless it is the same.
    - Trainer alone steps the learning rate schedule, and restores it on a resume.

    Args:
        config: DeepSpeed's; a dict, which is left as it is, or the path of a JSON or Hjson file. Without one,
            Lightning's defaults and `options` make it. Accumulation comes from Trainer, and clipping
            where the config has none.
        transport: `auto`, `gloo`, `nccl` or `mpi`.
        process_group_backend: Lightning's name for it, which goes before.
        cluster_environment: for ranks that only Lightning knows of (SLURM, LSF); a TopologyEnvironment by default.
        options: Lightning's for DeepSpeedStrategy: stage, offload_optimizer, exclude_frozen_parameters, timeout, ….

    Raises:
        StartError: on `fit`, `validate`, …: what would start wrongly or not at all; see `conformance.reference`.
    """

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
        self._stepping = False
        self._trained: Any = None

    def setup_environment(self) -> None:
        self.accelerator.setup_device(self.root_device)
        self.setup_distributed()

    def setup_distributed(self) -> None:
        self.set_world_ranks()
        self.start_ranks(self.root_device)

    def _setup_model_and_optimizer(
        self, model: torch.nn.Module, optimizer: Any, lr_scheduler: Any = None
    ) -> tuple[Any, Any]:
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        started = self.start_engine(
            model, self.config, optimizer=optimizer, model_parameters=trainable, lr_scheduler=lr_scheduler
        )
        self._trained = started.engine
        return started.engine, started.optimizer

    def _initialize_deepspeed_inference(self, model: torch.nn.Module) -> None:
        """The engine that trained the model, where one did: in stage 3, a second one would partition it again."""
        if self._trained is not None and self._trained.module is model:
            self.model = self._trained
            return
        config = {
            name: value
            for name, value in self.config.items()
            if name in ("fp16", "bf16", "zero_allow_untested_optimizer")
            or (name == "zero_optimization" and self.zero_stage_3)
        }
        remove_module_hooks(model)
        self.model = self.start_engine(
            model, {**config, "train_micro_batch_size_per_gpu": 1}, model_parameters=[]
        ).engine

    def _format_batch_size_and_grad_accum_config(self) -> None:
        trainers = self.lightning_module.trainer.gradient_clip_val
        if trainers is not None and self.config.get("gradient_clipping", trainers) != trainers:
            raise ConfigError(
                "gradient_clipping",
                f"{self.config['gradient_clipping']} in the DeepSpeed config, gradient_clip_val={trainers} in Trainer",
                "one norm, by which DeepSpeed clips once",
                "leave out one of them",
            )
        super()._format_batch_size_and_grad_accum_config()

    @property
    def handles_gradient_accumulation(self) -> bool:
        """False: then Trainer counts micro-batches, and has the last of an epoch end an accumulation."""
        return False

    @contextlib.contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        """Nothing to block: the engine waits for the boundary, and its `no_sync` refuses stages 2 and 3."""
        yield

    def backward(self, closure_loss: torch.Tensor, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Have the engine accumulate, and by `engine.step()` count, each micro-batch that ends no accumulation."""
        if not self.lightning_module.automatic_optimization:
            # There the loss is the user's, undivided, and each step is one of the optimizer.
            return super().backward(closure_loss, optimizer, *args, **kwargs)
        self.model.set_gradient_accumulation_boundary(self._stepping)
        # Trainer has divided the loss by accumulate_grad_batches already.
        loss = super().backward(closure_loss, optimizer, *args, scale_wrt_gas=False, **kwargs)
        if not self._stepping:
            self.model.step()
        return loss

    def optimizer_step(self, optimizer: Any, closure: Callable[[], Any], model: Any = None, **kwargs: Any) -> Any:
        self._stepping = True
        try:
            return super().optimizer_step(optimizer, closure, model, **kwargs)
        finally:
            self._stepping = False
