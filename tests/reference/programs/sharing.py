"""One process: a group of the caller's is adopted without compiling anything, and engines share one. Prints JSON."""

import json
import tempfile
from pathlib import Path
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.accelerator import get_accelerator

from conformance.reference import Initialized, initialize, shutdown, start

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_clipping": 0.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.1, "torch_adam": True}},
}
compiled: list[str] = []


class Compiled(Exception):
    """DeepSpeed was about to build an op."""


def refuse_to_build(builder: Any, *_: object, **__: object) -> None:
    compiled.append(builder.NAME)
    raise Compiled(builder.NAME)


def begin(stage: int = 0) -> Initialized:
    return initialize(torch.nn.Linear(4, 1), CONFIG | {"zero_optimization": {"stage": stage}})


def train(training: Initialized) -> bool:
    loss = (training.engine(torch.ones(2, 4)) - 3).square().mean()
    training.engine.backward(loss)
    training.engine.step()
    return bool(training.engine.global_steps)


results: dict[str, Any] = {}

# DeepSpeed would build its shared-memory op where it can, whoever starts torch.distributed.
type(get_accelerator().create_op_builder("ShareMemCommBuilder")).load = refuse_to_build
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = True
store = dist.FileStore(str(Path(tempfile.mkdtemp()) / "store"), 1)
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
with begin() as training:
    results["adopted"] = [training.started, train(training), compiled]
results["still up"] = dist.is_initialized()
results["compatible"] = deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"]
deepspeed.comm.destroy_process_group()

# Two engines: whichever is left first, the other goes on, and the last one ends what the first started.
for stage in (0, 3):
    for first in (0, 1):
        both = [begin(stage), begin(stage)]
        both[first].shutdown()
        both[first].shutdown()  # twice is safe, and is no second user
        results[f"stage {stage}, {first} left first"] = [both[0].started, both[1].started, train(both[1 - first])]
        both[1 - first].shutdown()
        results[f"stage {stage}, {first} left first: up"] = dist.is_initialized()

# Whoever called start() ends with shutdown(), and no engine does before.
start()
with begin() as training:
    results["started before"] = train(training)
results["held"] = dist.is_initialized()
shutdown()
with begin() as training:
    start()
results["held by a later start"] = dist.is_initialized()
shutdown()
results["let go"] = dist.is_initialized()

# A call that failed is no user.
try:
    initialize(torch.nn.Linear(4, 1), CONFIG | {"train_batch_size": 7})
except AssertionError:
    results["up after failing"] = dist.is_initialized()
with begin() as training:
    results["after failing"] = train(training)
results["up in the end"] = dist.is_initialized()
print("RESULTS " + json.dumps(results))
