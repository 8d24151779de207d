"""A small image classifier with buffers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

CHANNELS, SIZE, CLASSES = 3, 6, 5


class Convolution(nn.Module):
    """Two convolutions, a batch normalisation with running statistics, and a buffer that the output is scaled with."""

    scales: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(CHANNELS, 11, 3, padding=1)
        self.norm = nn.BatchNorm2d(11)
        self.second = nn.Conv2d(11, 13, 3, stride=2)
        self.head = nn.Linear(13 * 2 * 2, CLASSES)
        self.register_buffer("scales", torch.linspace(0.5, 1.5, CLASSES))

    def forward(self, images: Tensor) -> Tensor:
        """`images` [rows, 3, 6, 6] to logits [rows, 5]."""
        hidden = torch.tanh(self.norm(self.first(images.to(self.first.weight.dtype))))
        hidden = torch.tanh(self.second(hidden)).flatten(1)
        logits: Tensor = self.head(hidden) * self.scales.to(hidden.dtype)
        return logits


def data(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Images, and as class the brightest of some pixels."""
    images = torch.randn(rows, CHANNELS, SIZE, SIZE, generator=generator)
    return images, images[:, 0, 0, :CLASSES].argmax(dim=1)


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy over the rows, taken in float32."""
    return functional.cross_entropy(logits.float(), targets)
