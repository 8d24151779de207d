"""ZeRO-3 with the optimizer's state on the CPU, saved and resumed. Needs no compiler; alone or under mpiexec."""

import tempfile
from pathlib import Path

import torch

from conformance.reference import initialize

CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    # torch's AdamW. DeepSpeed's own (CPUAdam, FusedAdam) is compiled on first use, which needs MSVC on Windows.
    "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "torch_adam": True}},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
    "bf16": {"enabled": True},
}


def model() -> torch.nn.Module:
    """Yours goes here; it is small so that this takes seconds."""
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))


def train(engine, steps: int) -> float:
    """Some steps on random numbers; the last loss."""
    for _ in range(steps):
        x = torch.randn(4, 8, device=engine.device, dtype=torch.bfloat16)
        loss = (engine(x) - x.sum(1, keepdim=True)).square().mean()
        engine.backward(loss)
        engine.step()
    return loss.item()


if __name__ == "__main__":
    folder = Path(tempfile.gettempdir()) / "zero3"
    with initialize(model(), CONFIG) as training:
        print(f"rank {training.topology.rank} of {training.topology.world_size} on {training.engine.device}")
        print(f"loss {train(training.engine, 20):.3f}")
        training.engine.save_checkpoint(str(folder), tag="twenty")
    with initialize(model(), CONFIG) as training:
        training.engine.load_checkpoint(str(folder), tag="twenty")
        print(f"resumed after {training.engine.global_steps} steps, loss {train(training.engine, 20):.3f}")
