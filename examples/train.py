"""Five training steps. Runs as it is, on Linux and Windows: alone, under mpiexec, on Linux under torchrun."""

import torch

from conformance.reference import initialize

model = torch.nn.Linear(8, 1)
config = {
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "torch_adam": True}},
    "zero_optimization": {"stage": 2},
}
with initialize(model, config) as training:
    x = torch.randn(4, 8, device=training.engine.device)
    for step in range(5):
        loss = (training.engine(x) - x.sum(1, keepdim=True)).square().mean()
        training.engine.backward(loss)
        training.engine.step()
        print(f"rank {training.topology.rank} step {step} loss {loss.item():.3f}")
