"""One process: what initialize gives, leaves behind and refuses. Prints one JSON object."""

import datetime
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deepspeed
import torch
import torch.distributed as dist

from conformance.reference import StartError, Topology, initialize, shutdown, start

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
CONFIG: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_clipping": 0.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.1, "torch_adam": True}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.05, "warmup_max_lr": 0.1, "warmup_num_steps": 2}},
    "zero_optimization": {"stage": 1},
}


class Stream(torch.utils.data.IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.ones(6, 4))


def store_of_one() -> dist.Store:
    """Windows' torch has no HashStore."""
    return dist.FileStore(str(Path(tempfile.mkdtemp()) / "store"), 1)


def variables() -> dict[str, str]:
    return {name: os.environ[name] for name in NAMES if name in os.environ}


def refusal(call: Any) -> list[str]:
    try:
        call()
    except StartError as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]


def model() -> torch.nn.Module:
    return torch.nn.Linear(4, 1)


def train(training: Any) -> float:
    x = torch.ones(2, 4)
    loss = (training.engine(x) - 3).square().mean()
    training.engine.backward(loss)
    training.engine.step()
    return float(loss.item())


results: dict[str, Any] = {"before": variables()}

# What can be refused before anything starts, and leaves nothing behind.
results["no model"] = refusal(lambda: initialize({"args": 1}, CONFIG))  # type: ignore[arg-type]
results["misspelt"] = refusal(lambda: initialize(model(), CONFIG | {"zero_optimisation": {}}))
results["auto"] = refusal(lambda: initialize(model(), CONFIG | {"gradient_clipping": "auto"}))
results["stream"] = refusal(lambda: initialize(model(), CONFIG, training_data=Stream()))
results["sequences"] = refusal(lambda: initialize(model(), CONFIG | {"sequence_parallel_size": 2}))
results["nccl"] = refusal(lambda: initialize(model(), CONFIG, transport="nccl"))
results["up after refusals"] = dist.is_initialized()

# From a file, with training data; DeepSpeed ignores the unknown key when asked to keep it.
path = Path(sys.argv[1])
path.write_text(json.dumps(CONFIG | {"mine": 1}), encoding="utf-8")
data = torch.utils.data.TensorDataset(torch.ones(6, 4))
with initialize(model(), path, training_data=data, strict=False) as training:
    results["topology"] = [training.topology.world_size, training.topology.local_rank, training.topology.launcher]
    results["port"] = str(training.topology.master_port) == os.environ["MASTER_PORT"]
    results["transport"] = [training.transport, dist.get_backend()]
    results["during"] = sorted(variables())
    results["batches"] = len(training.dataloader)
    results["kinds"] = [type(training.engine).__name__, type(training.scheduler).__name__]
    results["same optimizer"] = training.optimizer is training.engine.optimizer
    results["losses"] = [train(training) for _ in range(3)]
    # A second engine over the same group ends without taking the group with it.
    with initialize(model(), CONFIG) as second:
        results["second"] = [second.started, second.topology == training.topology]
    second.shutdown()  # twice is safe
    results["up after the second"] = dist.is_initialized()
    results["another topology"] = refusal(lambda: start(topology=Topology(0, 2, 0, 2, "x", 1, "env")))
    results["another transport"] = refusal(lambda: start(transport="mpi"))
results["up after"] = dist.is_initialized()
results["after"] = variables()
training.shutdown()  # twice is safe

# The caller's dict is the caller's.
config = json.loads(json.dumps(CONFIG))
with initialize(model(), config) as training:
    train(training)
results["config untouched"] = config == CONFIG

# A group that is already up is adopted, and left up.
dist.init_process_group("gloo", store=store_of_one(), rank=0, world_size=1)
with initialize(model(), CONFIG) as training:
    results["adopted"] = [training.started, training.topology.launcher, training.transport, train(training)]
results["up after adopting"] = dist.is_initialized()
results["against the adopted"] = refusal(lambda: start(topology=Topology(1, 2, 1, 2, "127.0.0.1", 1, "env")))
# Ended behind our back, another one in its place: adopted anew.
dist.destroy_process_group()
dist.init_process_group("gloo", store=store_of_one(), rank=0, world_size=1)
results["adopted anew"] = start().started
dist.destroy_process_group()
results["started after that"] = start().started
shutdown()
shutdown()
results["in the end"] = [dist.is_initialized(), variables()]

# Ended by torch's own function, as some trainers do, with an engine that knew the old groups.
with initialize(model(), CONFIG) as training:
    train(training)
    dist.destroy_process_group()
with initialize(model(), CONFIG) as training:
    results["after torch ended it"] = [training.started, train(training)]

# A port that is taken; ranks that never come.
with socket.socket() as taken, socket.socket() as silent:
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    silent.bind(("127.0.0.1", 0))
    ports = taken.getsockname()[1], silent.getsockname()[1]
    results["taken"] = refusal(lambda: start(topology=Topology(0, 2, 0, 2, "127.0.0.1", ports[0], "env")))
    second_of_two = Topology(1, 2, 1, 2, "127.0.0.1", ports[1], "env")
    results["nobody there"] = refusal(lambda: start(topology=second_of_two, timeout=datetime.timedelta(seconds=1)))
results["after failing"] = [dist.is_initialized(), variables()]
results["shm_comm"] = [
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"],
    "deepspeed_shm_comm" in deepspeed.ops.op_builder.builder.OpBuilder._loaded_ops,
]
print("RESULTS " + json.dumps(results))
