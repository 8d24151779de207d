"""Starting DeepSpeed: from a model and a config to an engine that is what it should be."""

from __future__ import annotations

import dataclasses
import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from conformance.reference import mpi_abort, process_group
from conformance.reference.config import Config, load_config, refuse_unknown_keys
from conformance.reference.errors import ModelError, TopologyError
from conformance.reference.loading import guard_loading
from conformance.reference.refusals import refuse_auto, refuse_lost_sequence_parallelism, refuse_training_data
from conformance.reference.topology import Topology

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(frozen=True)
class Initialized:
    """A started DeepSpeed: what `deepspeed.initialize` returns, by name, and how it was started.

    A context manager: leaving it calls `shutdown`.

    Attributes:
        engine: the DeepSpeedEngine (or PipelineEngine, DeepSpeedHybridEngine).
        optimizer: the optimizer as DeepSpeed wrapped it, or None.
        dataloader: a DeepSpeedDataLoader over training_data, or None.
        scheduler: the learning rate scheduler, or None.
        connection: the running torch.distributed.
    """

    engine: Any
    optimizer: Any
    dataloader: Any
    scheduler: Any
    connection: process_group.Connection

    @property
    def topology(self) -> Topology:
        """This process's place in the job."""
        return self.connection.topology

    @property
    def transport(self) -> str:
        """What carries the collectives: `gloo`, `nccl` or `mpi`."""
        return self.connection.transport

    @property
    def started(self) -> bool:
        """Whether this call started torch.distributed; False where one was already up."""
        return self.connection.started

    def shutdown(self) -> None:
        """Destroy the engine, and end torch.distributed if this was its last user. Safe to call twice.

        Users are the engines of `initialize`, and whoever called `start`, until `shutdown` is called. A process group
        that neither of the two started stays up.
        """
        import torch.distributed

        if torch.distributed.is_initialized():  # without it, destroy raises halfway
            self.engine.destroy()
        process_group.release(self.connection)

    def __enter__(self) -> Initialized:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.shutdown()
        finally:
            if error is not None:
                mpi_abort.install()  # nobody may catch it, and then the other ranks would wait for this one for ever


def initialize(
    model: torch.nn.Module,
    config: Config,
    *,
    optimizer: Any = None,
    model_parameters: Any = None,
    lr_scheduler: Any = None,
    training_data: Any = None,
    collate_fn: Any = None,
    mpu: Any = None,
    transport: str = "auto",
    topology: Topology | None = None,
    timeout: datetime.timedelta | None = None,
    strict: bool = True,
) -> Initialized:
    """Start DeepSpeed without an `args` object, on Linux and on Windows, or say why not.

    The same script runs by itself, on Linux under torchrun, under the `deepspeed` launcher and under mpiexec, where an
    exception that nobody catches in one rank ends the others too (MPI_Abort), instead of leaving them waiting. Started
    as `mpiexec -n 2 python -m mpi4py train.py`, `sys.exit(1)` and errors before this call do so as well::

        import torch
        from conformance.reference import initialize

        model = torch.nn.Linear(8, 1)
        config = {
            "train_micro_batch_size_per_gpu": 4,
            "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "torch_adam": True}},
            "zero_optimization": {"stage": 2},
        }
        with initialize(model, config) as training:
            x = torch.randn(4, 8, device=training.engine.device)
            for step in range(5):
                loss = (training.engine(x) - x.sum(1, keepdim=True)).square().mean()
                training.engine.backward(loss)
                training.engine.step()
                print(f"rank {training.topology.rank} step {step} loss {loss.item():.3f}")

    (`torch_adam` takes PyTorch's AdamW; without it, DeepSpeed compiles its own, for which it needs a C++ compiler.)

    Every rank must make the call. It finds this process's place (`find_topology`), chooses the transport
    (`choose_transport`), starts torch.distributed through DeepSpeed (`start`; one that is already up is adopted), and
    calls `deepspeed.initialize(model=…, config=…)`. Then it checks that the engine has the ranks and the device that
    were planned, and has `engine.load_checkpoint` raise `CheckpointError`, which names the remedy, for a checkpoint of
    another number of ranks or of a model that torch.compile wrapped on one side only. After an error, torch.distributed
    may be up; `shutdown` ends it.

    Args:
        model: the model, not wrapped.
        config: a dict or another mapping, which is left as it is; or the path of a JSON or Hjson file.
        optimizer: an optimizer, or a callable that takes parameters and returns one; goes before the config's.
        model_parameters: the parameters or parameter groups to train; the model's by default.
        lr_scheduler: a scheduler, or a callable that takes the optimizer and returns one.
        training_data: a torch Dataset with a length, for `dataloader`; not an IterableDataset.
        collate_fn: merges samples of training_data to a batch.
        mpu: a model parallelism unit, as `deepspeed.initialize` describes it.
        transport: `auto`, `gloo`, `nccl` or `mpi`.
        topology: this process's place, where the caller knows better; `Topology.alone()` trains alone on purpose.
        timeout: how long a rank waits for the others; DeepSpeed's default is ten minutes.
        strict: refuse top-level config keys that DeepSpeed does not know. False keeps them, and DeepSpeed ignores them.

    Raises:
        ModelError: model is not a torch.nn.Module.
        ConfigError: the config cannot be read, asks for what DeepSpeed would not do, or strict found an unknown key.
        DataError: training_data has no length or no access by number.
        TopologyError, MpiError, TransportError: see `start`.
        Exception: what DeepSpeed itself refuses, unchanged: DeepSpeedConfigError, pydantic's ValidationError,
            AssertionError, ….
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise ModelError(
            "model",
            f"a {type(model).__name__}",
            "a torch.nn.Module",
            "call initialize(model, config); there is no args object to pass",
        )
    # Whatever can be refused without the other ranks is refused before they meet, so that none is left waiting.
    settings = load_config(config)
    refuse_auto(settings)
    refuse_lost_sequence_parallelism(settings, mpu)
    refuse_training_data(training_data)
    if strict:
        refuse_unknown_keys(settings)
    connection = process_group.start(topology=topology, transport=transport, timeout=timeout)

    import deepspeed

    try:
        engine, wrapped, dataloader, scheduler = deepspeed.initialize(
            model=model,
            config=settings,
            optimizer=optimizer,
            model_parameters=model_parameters,
            lr_scheduler=lr_scheduler,
            training_data=training_data,
            collate_fn=collate_fn,
            mpu=mpu,
        )
        _verify(engine, connection.topology)
    except BaseException:
        process_group.release(connection, end=False)  # the other ranks may be in the midst of it
        raise
    guard_loading(engine)
    return Initialized(engine, wrapped, dataloader, scheduler, connection)


def _verify(engine: Any, topology: Topology) -> None:
    """Check that the engine has the ranks and the device that were planned."""
    import torch
    from deepspeed.accelerator import get_accelerator

    device = torch.device(get_accelerator().device_name(topology.local_rank))
    found = (engine.global_rank, engine.world_size, engine.local_rank, engine.device)
    planned = (topology.rank, topology.world_size, topology.local_rank, device)
    if found != planned:
        raise TopologyError(
            "engine (rank, world size, local rank, device)",
            str(found),
            str(planned),
            "report this with the versions of DeepSpeed and torch; training would not be what was asked for",
        )
