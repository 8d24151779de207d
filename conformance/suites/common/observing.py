"""What scenarios share: a tiny model, the call that starts DeepSpeed, and the proof that an engine works.

Everything here runs in the ranks. Heavy imports stay inside the functions.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from conformance.integrations.mpi_port import agree_on_port
from conformance.model.setting import Observation, Setting
from conformance.reference import mpi_transport
from conformance.suites.common.training import transport_in_use

if TYPE_CHECKING:
    import torch

LEARNING_RATE = 0.01
MICRO_BATCH = 2
FEATURES, HIDDEN, OUTPUTS = 4, 8, 2

Parameters = Iterable["torch.nn.Parameter"]
OptimizerMaker = Callable[[Parameters], "torch.optim.Optimizer"]


def attempt(action: Callable[[], Any]) -> Observation:
    """What `action` came to: `{"returned": plain data}` or `{"raised": {"type", "module", "message"}}`.

    A result that is not plain data is told by its class.
    """
    try:
        value = action()
    except Exception as error:
        kind = type(error)
        return {"raised": {"type": kind.__qualname__, "module": kind.__module__, "message": str(error)}}
    plain = value is None or isinstance(value, bool | int | float | str | list | dict)
    return {"returned": value if plain else class_of(value)}


def class_of(value: object) -> str:
    """`module.Class` of a value."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def tiny_model(seed: int = 0) -> torch.nn.Module:
    """Two linear layers, 58 weights, the same on every rank for one seed."""
    import torch

    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, OUTPUTS))


def tiny_config(**changes: Any) -> dict[str, Any]:
    """A config that needs no compiled op: torch's AdamW, no clipping. A change to None takes the key away."""
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": MICRO_BATCH,
        "optimizer": {"type": "AdamW", "params": {"lr": LEARNING_RATE, "torch_adam": True}},
        "gradient_clipping": 0.0,
        "steps_per_print": 1_000_000,
    }
    config.update(changes)
    return {key: value for key, value in config.items() if value is not None}


def adamw(parameters: Parameters) -> torch.optim.Optimizer:
    """The optimizer of `tiny_config`, in plain torch."""
    import torch

    return torch.optim.AdamW(parameters, lr=LEARNING_RATE)


def samples(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` inputs (count x FEATURES) and targets (count x OUTPUTS), the same on every rank."""
    import torch

    generator = torch.Generator().manual_seed(1234)
    return torch.randn(count, FEATURES, generator=generator), torch.randn(count, OUTPUTS, generator=generator)


def prove(
    engine: Any,
    setting: Setting,
    *,
    steps: int = 1,
    optimizer: OptimizerMaker = adamw,
    scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
) -> Observation:
    """Train `steps` steps on an engine around `tiny_model()` and tell what it is and what it did.

    The same steps are done in plain torch, in this process, on the samples of all ranks.

    Args:
        optimizer: makes the plain optimizer that the engine's should equal.
        scheduler: makes the plain scheduler that the engine's should equal; stepped after every step.

    Returns:
        What the engine says of itself, and `start`, `weights` and `plain`: all weights (flat, float32) before, after,
        and after the plain steps.
    """
    import torch
    from deepspeed import comm

    micro, accumulation = engine.train_micro_batch_size_per_gpu(), engine.gradient_accumulation_steps()
    rank, world = comm.get_rank(), comm.get_world_size()
    inputs, targets = samples(micro * accumulation * world * steps)
    start = flat_weights(engine.module)
    dtype = next(engine.module.parameters()).dtype
    rates, position = [engine.get_lr()] if engine.optimizer is not None else [], rank * micro
    for _ in range(steps * accumulation):
        chosen = slice(position, position + micro)
        outputs = engine(inputs[chosen].to(device=engine.device, dtype=dtype))
        loss = torch.nn.functional.mse_loss(outputs.float(), targets[chosen].to(engine.device))
        engine.backward(loss)
        engine.step()
        position += micro * world
        if engine.is_gradient_accumulation_boundary():
            rates.append(engine.get_lr())
    weights = flat_weights(engine.module)
    return {
        "asked": {"world": setting.world, "device": setting.device, "transport": setting.transport},
        "rank": rank,
        "world": world,
        "engine_rank": engine.global_rank,
        "engine_world": engine.world_size,
        "local_rank": engine.local_rank,
        "transport": transport_in_use(),
        "device": str(next(engine.module.parameters()).device),
        "steps": engine.global_steps,
        "stage": engine.zero_optimization_stage(),
        "micro_batch": micro,
        "accumulation": accumulation,
        "train_batch": engine.train_batch_size(),
        "dtype": str(dtype).removeprefix("torch."),
        "optimizer": class_of(engine.optimizer),
        "basic_optimizer": class_of(engine.basic_optimizer),
        "scheduler": None if engine.lr_scheduler is None else class_of(engine.lr_scheduler),
        "rates": [list(map(float, rate)) for rate in rates],
        "start": start,
        "weights": weights,
        "plain": _plain(steps, micro * accumulation * world, optimizer, scheduler),
        "digest": hashlib.sha256(weights.tobytes()).hexdigest()[:16],
    }


def flat_weights(module: torch.nn.Module) -> Any:
    """All weights of a module, one after another, as a float32 numpy array; gathered first where ZeRO-3 holds them."""
    import deepspeed
    import torch

    parameters = list(module.parameters())
    with deepspeed.zero.GatheredParameters(parameters, enabled=any(hasattr(p, "ds_id") for p in parameters)):
        return torch.cat([parameter.detach().float().cpu().reshape(-1) for parameter in parameters]).numpy()


def _plain(
    steps: int, batch: int, optimizer: OptimizerMaker, scheduler: Callable[[torch.optim.Optimizer], Any] | None
) -> Any:
    import torch

    model = tiny_model()
    plain_optimizer = optimizer(model.parameters())
    plain_scheduler = scheduler(plain_optimizer) if scheduler else None
    inputs, targets = samples(batch * steps)
    for step in range(steps):
        chosen = slice(step * batch, (step + 1) * batch)
        plain_optimizer.zero_grad()
        loss: Any = torch.nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        loss.backward()
        plain_optimizer.step()
        if plain_scheduler:
            plain_scheduler.step()
    return flat_weights(model)


def starter(setting: Setting) -> Callable[..., tuple[Any, Any, Any, Any]]:
    """What starts DeepSpeed in this cell: `deepspeed.initialize`, or where axis `call` says so, the reference's.

    Both give engine, optimizer, data loader and scheduler. Collective where mpiexec started the ranks.
    """
    if setting.get("call") == "reference":
        return functools.partial(_start_reference, transport=setting.transport)
    import deepspeed

    return functools.partial(deepspeed.initialize, **for_launcher(setting))


def for_launcher(setting: Setting) -> dict[str, Any]:
    """What the bare call needs besides, on this lane.

    Where MPI finds the ranks, it is told a port of their own. MPI as a transport cannot be asked for in the call at
    all, and is started before it.
    """
    if setting.launcher != "mpi":
        return {}
    number = agree_on_port()
    if setting.transport == "mpi":
        import deepspeed

        deepspeed.init_distributed(dist_backend=mpi_transport.register(), distributed_port=number)
    return {"distributed_port": number}


def _start_reference(*arguments: Any, **named: Any) -> tuple[Any, Any, Any, Any]:
    from conformance.reference import initialize

    started = initialize(*arguments, **named)
    return started.engine, started.optimizer, started.dataloader, started.scheduler
