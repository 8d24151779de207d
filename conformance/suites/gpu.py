"""What only a GPU can show: where parameters, gradients and optimizer states really are, over whatever transport."""

from __future__ import annotations

from typing import Any

from conformance.model.case import case
from conformance.model.setting import Axes, Observation, Setting
from conformance.oracle.question import Question
from conformance.suites.common import checks, training
from conformance.suites.zero import finish, same_training

FUSED_ADAM = "deepspeed.ops.adam.fused_adam.FusedAdam"


def config(setting: Setting, asked: Question) -> dict[str, Any]:
    """DeepSpeed's config for the cell."""
    made = training.config(asked, stage=setting["stage"])
    if setting.get("optimizer") == "fused":
        del made["optimizer"]["params"]["torch_adam"]
    if "pinned" in setting.parameters:
        made["zero_force_ds_cpu_optimizer"] = False
        made["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": setting["pinned"]}
    if "overlap" in setting.parameters:
        # Buckets smaller than the model, so that there is something to overlap.
        made["zero_optimization"].update(overlap_comm=setting["overlap"], reduce_bucket_size=2000)
    return made


def places(engine: Any) -> Observation:
    """Where an engine keeps what it trains, and whether float32 copies on the CPU are page-locked."""
    import torch
    from deepspeed.accelerator import get_accelerator

    masters = (
        getattr(engine.optimizer, "fp32_partitioned_groups_flat", None)
        or getattr(engine.optimizer, "single_partition_of_fp32_groups", None)
        or [each for group in engine.basic_optimizer.param_groups for each in group["params"]]
    )
    on_gpu = torch.cuda.is_available()
    return {
        "own_device": get_accelerator().current_device_name(),
        "gpu": str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid) if on_gpu else None,
        "parameter_devices": sorted({str(each.device) for each in engine.module.parameters()}),
        "master_devices": sorted({str(each.device) for each in masters}),
        "pinned": [bool(each.is_pinned()) for each in masters],
        "overlap": overlaps(engine.optimizer),
    }


def overlaps(optimizer: Any) -> bool:
    """Whether gradients are reduced on a stream of their own; stage 3 keeps no flag, only the stream."""
    from deepspeed.accelerator import get_accelerator

    if hasattr(optimizer, "overlap_comm"):
        return bool(optimizer.overlap_comm)
    stream = getattr(optimizer, "reduce_and_partition_stream", None)
    return stream is not None and stream != get_accelerator().default_stream()


def train(setting: Setting) -> Observation:
    """The usual training, on this rank's own GPU."""
    asked = training.question(setting.parameters)
    session = training.start(setting, asked, config(setting, asked))
    progress = training.train(session, asked)
    return finish(setting, session, progress, places=places(session.engine))


def everything_on_own_gpu(observations: list[Observation], *, masters: str | None = None) -> None:
    """Parameters, float32 copies and optimizer states are on the rank's GPU, and no two ranks share one.

    Args:
        masters: where the last two must be instead.
    """
    for rank, each in enumerate(observations):
        own = each["places"]["own_device"]
        assert own.startswith("cuda:"), f"rank {rank}: DeepSpeed's accelerator is at {own}, expected a GPU"
        for what, found, expected in (
            ("the parameters", each["places"]["parameter_devices"], own),
            ("the float32 copies", each["places"]["master_devices"], masters or own),
            ("the optimizer states", each["state_devices"], masters or own),
        ):
            assert found == [expected], f"rank {rank}: {what} are on {found}, expected {expected}"
    gpus = [each["places"]["gpu"] for each in observations]
    assert len(set(gpus)) == len(gpus), f"ranks share a GPU: {gpus}"


@case("gpu/parameters", train)
def check_parameters(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Trained on the GPU, fp16 included, to the oracle's trajectory."""
    everything_on_own_gpu(observations)
    same_training(axes, observations, measured, training.question(axes))


@case("gpu/fused_adam", train)
def check_fused_adam(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """DeepSpeed's fused Adam really steps, and as torch's does."""
    everything_on_own_gpu(observations)
    found = [each["basic_optimizer"] for each in observations]
    assert found == [FUSED_ADAM] * len(found), f"the optimizers are {found}, expected {FUSED_ADAM}"
    same_training(axes, observations, measured, training.question(axes))


@case("gpu/offload", train)
def check_offload(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Parameters on the GPU, float32 copies and states on the CPU: page-locked where asked, and only there."""
    everything_on_own_gpu(observations, masters="cpu")
    for rank, each in enumerate(observations):
        found = each["places"]["pinned"]
        assert found == [axes["pinned"]] * len(found), f"rank {rank}: page-locked: {found}, expected {axes['pinned']}"
    same_training(axes, observations, measured, training.question(axes))


@case("gpu/overlap", train)
def check_overlap(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Gradients that are reduced while others are still computed are the same gradients."""
    everything_on_own_gpu(observations)
    found = [each["places"]["overlap"] for each in observations]
    assert found == [axes["overlap"]] * len(found), f"overlap_comm is {found}, expected {axes['overlap']}"
    checks.ranks_agree(observations, "gradient_norms")
    same_training(axes, observations, measured, training.question(axes))
