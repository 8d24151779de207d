"""A small perceptron whose tensors split unevenly over any number of ranks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

INPUTS, FIRST, SECOND, OUTPUTS = 17, 63, 62, 5


class Mlp(nn.Module):
    """5417 weights in 6 tensors.

    The total is odd, so every partition over 2 or 4 ranks needs padding, and a partition's edge falls inside a tensor.
    tanh, and not ReLU, since a kink would turn a rounding difference into a jump of the gradient.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, FIRST)
        self.second = nn.Linear(FIRST, SECOND)
        self.third = nn.Linear(SECOND, OUTPUTS)

    def forward(self, inputs: Tensor) -> Tensor:
        """`inputs` [rows, 17] in any float dtype; returns [rows, 5] in the dtype of the weights."""
        hidden = torch.tanh(self.first(inputs.to(self.first.weight.dtype)))
        output: Tensor = self.third(torch.tanh(self.second(hidden)))
        return output


def data(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs [rows, 17] and targets [rows, 5] that the model can learn, float32."""
    inputs = torch.randn(rows, INPUTS, generator=generator)
    targets = torch.sin(inputs[:, :OUTPUTS] + inputs[:, OUTPUTS : 2 * OUTPUTS])
    return inputs, targets


def loss(output: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error over the rows, taken in float32 whatever the model computes in."""
    return (output.float() - targets).square().mean()
