"""What the ranks of test_mpi_zero.py run: DeepSpeed's ZeRO over mpi4py, then the same over gloo.

Usage: python -m mpi4py zero_in_ranks.py RESULT.json
Rank 0 writes, for each backend and setting, a hash and some values of the weights after the last step.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import deepspeed
import torch
import torch.distributed as dist

from conformance.reference import mpi_transport

SETTINGS = [
    {"stage": stage, "overlap_comm": overlap, "bf16": bf16}
    for stage in range(4)
    for overlap in ((False, True) if stage in (2, 3) else (False,))
    for bf16 in (False, True)
]


def train(setting: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 300), torch.nn.ReLU(), torch.nn.Linear(300, 257), torch.nn.Linear(257, 3)
    )
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}},
        "bf16": {"enabled": setting["bf16"]},
        "zero_optimization": {
            "stage": setting["stage"],
            "overlap_comm": setting["overlap_comm"],
            "stage3_param_persistence_threshold": 0,
        },
    }
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    numbers = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        batch = torch.randn(4, 16, generator=numbers).to(torch.bfloat16 if setting["bf16"] else torch.float32)
        engine.backward(engine(batch).float().square().mean())
        engine.step()
    with deepspeed.zero.GatheredParameters(list(model.parameters())):
        weights = torch.cat([parameter.detach().float().flatten() for parameter in model.parameters()])
    engine.destroy()
    return {
        "stage": engine.zero_optimization_stage(),
        "hash": hashlib.sha256(weights.numpy().tobytes()).hexdigest(),
        "some": weights[::997].tolist(),
    }


def main(result: Path) -> None:
    torch.set_num_threads(1)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled, and only inference uses it
    mpi_transport.register()
    found: dict[str, list[dict[str, Any]]] = {}
    for backend in ("mpi4py", "gloo"):
        deepspeed.init_distributed(dist_backend=backend, init_method="mpi://", verbose=False)
        assert dist.get_backend() == backend
        found[backend] = [train(setting) for setting in SETTINGS]
        everybody: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, found[backend])
        assert everybody == [found[backend]] * dist.get_world_size(), "the ranks do not agree"
        rank = dist.get_rank()
        deepspeed.comm.destroy_process_group()
    if rank == 0:
        result.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
