"""Reading an engine's weights in full, whatever has been partitioned, offloaded or rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def gather(engine: Any) -> dict[str, NDArray[np.float32]]:
    """The float32 weights that the optimizer updates, by parameter name; for frozen parameters, what the model computes
    with.

    Collective: every rank calls it and gets all weights. What is frozen or empty is in no optimizer.

    Raises:
        RuntimeError: the engine keeps its master copy where this does not look, and would have given rounded weights
            instead.
    """
    from deepspeed.utils import safe_get_full_fp32_param

    computing = module_weights(engine)
    unpartitioned = _unpartitioned_masters(engine)
    weights: dict[str, NDArray[np.float32]] = {}
    for name, parameter in engine.module.named_parameters():
        if not parameter.requires_grad or not computing[name].size:
            weights[name] = computing[name]
            continue
        master = unpartitioned.get(id(parameter))
        # BF16_Optimizer partitions its master copies without ZeRO too (bf16 in stage 0, before DeepSpeed 0.17.6).
        if master is None and (engine.zero_optimization() or hasattr(parameter, "_hp_mapping")):
            master = safe_get_full_fp32_param(parameter)
        if master is None and parameter.dtype == torch.float32:
            weights[name] = computing[name]
        elif master is None:
            raise RuntimeError(
                f"no float32 copy of {name} found in {type(engine.optimizer).__name__}, "
                f"though the model computes in {parameter.dtype}"
            )
        else:
            weights[name] = _numpy(master).reshape(computing[name].shape)
    return weights


def module_weights(engine: Any) -> dict[str, NDArray[np.float32]]:
    """What the model computes with, in full, by parameter name, widened to float32. Collective."""
    import deepspeed

    parameters = dict(engine.module.named_parameters())
    partitioned = [each for each in parameters.values() if hasattr(each, "ds_id")]
    with deepspeed.zero.GatheredParameters(partitioned, enabled=bool(partitioned)):
        return {name: _numpy(parameter) for name, parameter in parameters.items()}


def _unpartitioned_masters(engine: Any) -> dict[int, Tensor]:
    """The master copies of DeepSpeed's fp16 and bf16 optimizers without ZeRO, by the id of the parameter that
    computes."""
    optimizer = engine.optimizer
    found: dict[int, Tensor] = {}
    if hasattr(optimizer, "fp32_groups"):
        for computing, masters in zip(optimizer.fp16_groups, optimizer.fp32_groups, strict=True):
            found.update({id(parameter): master for parameter, master in zip(computing, masters, strict=True)})
    elif hasattr(optimizer, "fp32_groups_flat") and hasattr(optimizer, "fp16_groups"):
        for computing, flat in zip(optimizer.fp16_groups, optimizer.fp32_groups_flat, strict=True):
            parts = flat.detach().split([parameter.numel() for parameter in computing])
            found.update({id(parameter): part for parameter, part in zip(computing, parts, strict=True)})
    return found


def _numpy(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().to("cpu", torch.float32).numpy().copy()
    return array
