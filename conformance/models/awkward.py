"""Everything about a model's parameters that a partition has to get right at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from conformance.models import mlp

WIDTH = 31


class Awkward(nn.Module):
    """A perceptron with a frozen layer, an unused layer, a layer that is used twice under two names, a parameter with a
    single element, and a frozen parameter beside trained ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(mlp.INPUTS, WIDTH)
        self.frozen = nn.Linear(WIDTH, WIDTH)
        self.frozen.requires_grad_(False)
        self.once = nn.Linear(WIDTH, WIDTH)
        self.twice = self.once
        self.unused = nn.Linear(7, 3)
        self.gain = nn.Parameter(torch.tensor([1.1]))
        self.offset = nn.Parameter(torch.full((WIDTH,), 0.01), requires_grad=False)
        self.head = nn.Linear(WIDTH, mlp.OUTPUTS)

    def forward(self, inputs: Tensor) -> Tensor:
        """[rows, 17] to [rows, 5]."""
        hidden = torch.tanh(self.first(inputs.to(self.first.weight.dtype)))
        hidden = torch.tanh(self.frozen(hidden) + self.offset)
        hidden = torch.tanh(self.once(hidden))
        hidden = torch.tanh(self.twice(hidden) * self.gain)
        output: Tensor = self.head(hidden)
        return output
