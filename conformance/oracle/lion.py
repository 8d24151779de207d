"""Lion, which torch.optim lacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Lion(torch.optim.Optimizer):
    """The update of Chen et al., Symbolic Discovery of Optimization Algorithms (arXiv 2302.06675), algorithm 2:
    a step of lr in the direction of the sign of an interpolated momentum, with decoupled weight decay."""

    def __init__(self, params: Iterable[Any], lr: float, betas: tuple[float, float], weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all parameters; `closure` must be None."""
        assert closure is None
        for group in self.param_groups:
            beta_1, beta_2 = group["betas"]
            for parameter in group["params"]:
                momentum: Tensor = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
                direction = torch.sign(beta_1 * momentum + (1 - beta_1) * parameter.grad)
                parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * direction)
                momentum.mul_(beta_2).add_((1 - beta_2) * parameter.grad)
