"""Two ranks: a step at each ZeRO stage, starting again in between. Each prints one JSON object."""

import json
import sys

import torch
import torch.distributed as dist

from conformance.reference import initialize, shutdown, start

results: dict[str, object] = {"stages": {}}
transport = sys.argv[1]
for stage in range(4):
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
        x = torch.arange(16.0).reshape(4, 4)[2 * training.topology.rank :][:2] / 16
        loss = (training.engine(x) - 1).square().mean()
        training.engine.backward(loss)
        training.engine.step()
        with torch.no_grad():
            after = training.engine(torch.ones(1, 4)).item()
        results["stages"][stage] = [training.engine.zero_optimization_stage(), loss.item(), after]  # type: ignore[index]
        place = training.topology
        results["topology"] = [place.rank, place.world_size, place.local_rank, place.local_size, place.launcher]
        results["backend"] = [training.transport, dist.get_backend()]
for _ in range(5):  # quickly one after the other: no rank may meet the leavings of the start before
    start(transport=transport)
    value = torch.ones(1)
    dist.all_reduce(value)
    assert value.item() == 2
    shutdown()
results["up"] = dist.is_initialized()
# One write: lines of two ranks share a pipe.
sys.stdout.write("RESULTS " + json.dumps(results) + "\n")
