"""What is done once so that no scenario has to: imports, and what DeepSpeed imports or probes on first use."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Sequence

from conformance.ranks.inside import processor, rendezvous, shared_memory_op

_LAZY = (
    "torch.utils.cpp_extension",
    "torch.optim",
    "torch._dynamo",
    "torch._inductor",
    "torch._subclasses.schema_check_mode",
    "torch.distributed.distributed_c10d",
    "torch.profiler._cupti_monitor",
    "torch.utils.serialization.config",
    "deepspeed.comm.mori",
    "deepspeed.module_inject.auto_ep_comm",
    "deepspeed.module_inject.auto_ep_layer",
    "deepspeed.moe.ep_count",
    "deepspeed.moe.ep_repack",
    "deepspeed.runtime.superoffload.superoffload_stage3",
    "deepspeed.utils.pin_memory",
    "deepspeed.runtime.zero.stage3",
    "deepspeed.runtime.zero.stage_1_and_2",
    "deepspeed.runtime.zero.muon.muon_optimizer",
    "deepspeed.runtime.bf16_optimizer",
    "deepspeed.runtime.fp16.fused_optimizer",
    "deepspeed.runtime.fp16.unfused_optimizer",
    "deepspeed.checkpoint",
)
"""Modules that an engine imports when it is made or first used; those of other versions are passed over."""


def up(modules: Sequence[str]) -> None:
    """Import `modules`, and with torch or DeepSpeed among them what those put off.

    Raises:
        ImportError: one of `modules` cannot be imported.
    """
    for name in modules:
        importlib.import_module(name)
    _first_uses()


def up_as_far_as_possible(modules: Sequence[str]) -> None:
    """As `up`, but what cannot be imported is left for the scenario to meet, and named on stderr."""
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"import of {name} ahead of the scenario: {type(error).__name__}: {error}", file=sys.stderr)
    try:
        _first_uses()
    except Exception as error:
        print(f"imports ahead of the scenario: {type(error).__name__}: {error}", file=sys.stderr)


def _first_uses() -> None:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for name in _LAZY:
        if name.partition(".")[0] in sys.modules:
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(name)
    shared_memory_op.switch_off()  # runs the compiler's probes, once for all ranks
    if "deepspeed" in sys.modules:
        processor.remember()
    rendezvous.look_often()
    torch.set_num_threads(1)
