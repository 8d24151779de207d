"""The MLP with one uncommon parameter more."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from conformance.models.mlp import Mlp


class WithScalar(Mlp):
    """Its output is scaled by a parameter without dimensions, as CLIP's logit scale is."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.1))

    def forward(self, inputs: Tensor) -> Tensor:
        """As the MLP's."""
        return super().forward(inputs) * self.scale


class WithEmpty(Mlp):
    """A parameter without elements takes part in its output."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.empty(0, 5))

    def forward(self, inputs: Tensor) -> Tensor:
        """As the MLP's."""
        return super().forward(inputs) + self.nothing.sum()
