"""Two ranks: over each transport named, a step at each ZeRO stage, and starting again in between. Each prints JSON."""

import json
import sys
from typing import Any

import torch
import torch.distributed as dist

from conformance.reference import initialize, shutdown, start


def train(stage: int, transport: str) -> dict[str, Any]:
    """One step; how it was started, and what came of it."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    config = {
        "train_batch_size": 4,
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 0.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.1, "torch_adam": True}},
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
    }
    with initialize(model, config, transport=transport) as training:
        place = training.topology
        x = torch.arange(16.0).reshape(4, 4)[2 * place.rank :][:2] / 16
        loss = (training.engine(x) - 1).square().mean()
        training.engine.backward(loss)
        training.engine.step()
        with torch.no_grad():
            after = training.engine(torch.ones(1, 4)).item()
        return {
            "topology": [place.rank, place.world_size, place.local_rank, place.local_size, place.launcher],
            "transport": [training.transport, dist.get_backend()],
            "stage": training.engine.zero_optimization_stage(),
            "loss": loss.item(),
            "after": after,
        }


def start_often(transport: str) -> None:
    """Quickly one after the other: no rank may meet the leavings of the start before."""
    for _ in range(5):
        start(transport=transport)
        value = torch.ones(1)
        dist.all_reduce(value)
        assert value.item() == 2
        shutdown()


steps = []
for transport in sys.argv[1:]:
    steps += [train(stage, transport) for stage in range(4)]
    start_often(transport)
# One write: lines of two ranks share a pipe.
sys.stdout.write("RESULTS " + json.dumps({"steps": steps, "up": dist.is_initialized()}) + "\n")
