"""A model large enough that its state is swapped to disk and not kept back as too small."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from conformance.models import mlp

WIDTH = 1151


class Wide(nn.Module):
    """1.35 million weights, nearly all in one matrix, in a perceptron as small in its inputs and outputs as the MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(mlp.INPUTS, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.third = nn.Linear(WIDTH, mlp.OUTPUTS)

    def forward(self, inputs: Tensor) -> Tensor:
        """[rows, 17] to [rows, 5]."""
        hidden = torch.tanh(self.first(inputs.to(self.first.weight.dtype)))
        output: Tensor = self.third(torch.tanh(self.second(hidden)))
        return output
