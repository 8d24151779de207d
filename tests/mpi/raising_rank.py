"""What the ranks of test_mpi_abort.py run: rank 1 raises, the others wait. Usage: raising_rank.py HOW TRANSPORT"""

import sys

import torch
import torch.distributed as dist

from conformance.reference import initialize, shutdown, start

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.1, "torch_adam": True}},
}
how, transport = sys.argv[1:]


def work(rank: int) -> None:
    if rank == 1 or how == "everywhere":
        raise ValueError("as asked")
    dist.all_reduce(torch.ones(1))


torch.set_num_threads(1)
if how == "bare":
    work(start(transport=transport).topology.rank)
try:
    with initialize(torch.nn.Linear(4, 1), CONFIG, transport=transport) as training:
        assert type(sys.excepthook).__module__ == "conformance.reference.mpi_abort"
        if how != "good":
            work(training.topology.rank)
except ValueError:
    if how != "everywhere":
        raise
    # Caught in all ranks: they start again, and then nothing is left of it.
    start(transport=transport)
    dist.all_reduce(torch.ones(1))
    shutdown()
assert type(sys.excepthook).__module__ != "conformance.reference.mpi_abort"
sys.stdout.write(f"good end of {how}\n")
