"""What the scenarios that train have in common: configs from axes, the loop, and the facts that an engine tells about
itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from conformance.integrations.protocol import Session
from conformance.model.setting import Axes, Observation, Setting
from conformance.oracle.question import Optimizer, Question

STEPS = 4
CLIPPING = 0.2
"""Largest gradient norm where clipping is on; the MLP's first norms are about 0.6, so that it bites in each step."""

LOSS_SCALE = 256.0
"""Static, a power of two: scaling is exact, and the MLP's gradients times this are far from both ends of fp16."""

PERSISTENCE = 100
"""Stage 3 leaves tensors below this many weights unpartitioned: the MLP's biases stay whole and its matrices do not."""

REFUSED = {dtype: f"ValueError: Type {dtype} is not supported on your device." for dtype in ("bf16", "fp16")}


def question(axes: Axes, *, steps: int = STEPS, task: str = "mlp") -> Question:
    """What the oracle is asked about a cell with the usual axes."""
    name = str(axes.get("model", task))
    # Steps that suit the others make the wide model's loss jump.
    optimizer = Optimizer().with_options(lr=1e-3) if name == "wide" else Optimizer()
    return Question(
        task=name,
        optimizer=optimizer,
        dtype=str(axes.get("dtype", "fp32")),
        world=int(axes.get("world", 1)),
        accumulation=int(axes.get("accumulation", 1)),
        clipping=CLIPPING if axes.get("clipping") else 0.0,
        steps=steps,
        loss_scale=LOSS_SCALE,
    )


def reseeded(asked: Question) -> Question:
    """The same from other initial weights, so that what a load gives is seen to come from the load."""
    return dataclasses.replace(asked, seed=asked.seed + 1000)


def config(asked: Question, *, stage: int, zero: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """DeepSpeed's config for a question; `zero` is laid over the section zero_optimization.

    torch_adam keeps the optimizer torch's own, so that no op has to be compiled. Clipping is always said, since
    DeepSpeed's default is 1.0.
    """
    from conformance.models import ROWS

    section: dict[str, Any] = {"stage": stage}
    if stage == 3:
        section["stage3_param_persistence_threshold"] = PERSISTENCE
    made: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": ROWS // asked.terms,
        "gradient_accumulation_steps": asked.accumulation,
        "gradient_clipping": asked.clipping,
        "zero_optimization": {**section, **(zero or {})},
        "optimizer": optimizer_section(asked.optimizer),
        "steps_per_print": 1_000_000,
    }
    if asked.dtype == "bf16":
        made["bf16"] = {"enabled": True}
    if asked.dtype == "fp16":
        made["fp16"] = {"enabled": True, "loss_scale": asked.loss_scale}
    return made


def optimizer_section(optimizer: Optimizer) -> dict[str, Any]:
    """The config section that asks for this torch optimizer."""
    parameters = {name: list(value) if isinstance(value, tuple) else value for name, value in optimizer.options}
    if optimizer.name in ("Adam", "AdamW"):
        parameters["torch_adam"] = True
    return {"type": optimizer.name, "params": parameters}


def start(setting: Setting, asked: Question, made: Mapping[str, Any], **arguments: Any) -> Session:
    """The question's model in training by the setting's integration."""
    from conformance import integrations, models

    model, loss = models.build(asked.task, asked.seed), models.task(asked.task).loss
    return integrations.start(setting, integrations.Training(model, made, loss, **arguments))


@dataclasses.dataclass
class Progress:
    """What a rank saw of some steps: its own losses, and the gradient norms that the engine told, where it did."""

    losses: list[float] = dataclasses.field(default_factory=list)
    gradient_norms: list[float] = dataclasses.field(default_factory=list)


def train(session: Session, asked: Question, *, first: int = 0, steps: int | None = None) -> Progress:
    """Optimizer steps `first` to `first + steps` of a question on this rank's share of the batches."""
    import torch.distributed

    from conformance import models

    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    progress = Progress()
    for step in range(first, first + (asked.steps if steps is None else steps)):
        batches = [
            models.micro_batch(asked.task, step, micro=micro, accumulation=asked.accumulation, rank=rank, world=world)
            for micro in range(asked.accumulation)
        ]
        progress.losses.append(session.train_step(batches))
        norm = session.engine.get_global_grad_norm()
        if norm is not None:
            progress.gradient_norms.append(float(norm))
    return progress


def supports(dtype: str) -> bool:
    """Whether DeepSpeed's accelerator says that it computes in `dtype`."""
    from deepspeed.accelerator import get_accelerator

    if dtype == "fp16":
        return bool(get_accelerator().is_fp16_supported())
    return dtype == "fp32" or bool(get_accelerator().is_bf16_supported())


def transport_in_use() -> str:
    """What carries the collectives, by the name that lanes use; torch's name for MPI is another."""
    import torch.distributed

    from conformance.reference import mpi_transport

    backend: str = torch.distributed.get_backend()
    return "mpi" if backend == mpi_transport.BACKEND else backend


def facts(engine: Any) -> Observation:
    """What an engine and its optimizer say about themselves, read after training.

    `partitioned` counts, for stage 3, tensors of which this rank holds only its share, and `shard_numel` the weights it
    holds in all.
    """
    import torch.distributed

    trainable = [each for each in engine.module.parameters() if each.requires_grad]
    basic = engine.basic_optimizer
    # Stage 3 hands its optimizer one group of weights at a time and leaves none with it in between.
    masters = getattr(engine.optimizer, "fp32_partitioned_groups_flat", None) or [
        each for group in basic.param_groups for each in group["params"]
    ]
    state: dict[str, int] = {}
    for values in basic.state.values():
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and value.dim():
                state[name] = state.get(name, 0) + value.numel()
    shared = [each for each in trainable if hasattr(each, "ds_id") and each.numel() != each.ds_numel]
    return {
        "rank": torch.distributed.get_rank(),
        "world": torch.distributed.get_world_size(),
        "transport": transport_in_use(),
        "stage": int(engine.zero_optimization_stage()),
        "accumulation": int(engine.gradient_accumulation_steps()),
        "clipping": float(engine.gradient_clipping()),
        "steps": int(engine.global_steps),
        "skipped_steps": int(engine.skipped_steps),
        "computing_dtypes": sorted({str(each.dtype) for each in trainable}),
        "master_dtypes": sorted({str(each.dtype) for each in masters}),
        "optimizer": type(engine.optimizer).__name__,
        "basic_optimizer": f"{type(basic).__module__}.{type(basic).__name__}",
        "partition_gradients": bool(getattr(engine.optimizer, "partition_gradients", False)),
        "master_numel": sum(each.numel() for each in masters),
        "state_numel": state,
        "state_devices": sorted(
            {
                str(value.device)
                for values in basic.state.values()
                for value in values.values()
                if isinstance(value, torch.Tensor) and value.dim()
            }
        ),
        "partitioned": len(shared),
        "shard_numel": sum(
            each.ds_tensor.numel() if hasattr(each, "ds_tensor") else each.numel() for each in trainable
        ),
    }


def digest(weights: Mapping[str, Any]) -> str:
    """A hash over names, shapes and bits."""
    import hashlib

    hashed = hashlib.sha256()
    for name in sorted(weights):
        hashed.update(f"{name}{weights[name].shape}".encode())
        hashed.update(weights[name].tobytes())
    return hashed.hexdigest()[:16]


def report(session: Session, progress: Progress) -> Observation:
    """What a rank tells after training. Only rank 0 sends the weights; all send their digest."""
    from conformance.integrations import master_weights

    told = facts(session.engine)  # before the weights are gathered: that also partitions what stage 3 had left whole
    weights = session.weights()
    computing = master_weights.module_weights(session.engine)
    return {
        **told,
        "losses": progress.losses,
        "gradient_norms": progress.gradient_norms,
        "digest": digest(weights),
        "computing_digest": digest(computing),
        **({"weights": weights, "computing": computing} if told["rank"] == 0 else {}),
    }
