"""A small language model whose output layer is its embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH = 33, 24, 2, 2, 7


class Block(nn.Module):
    """Attention and a perceptron, each after a normalisation and around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.norm_2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        """[rows, length, width] to the same."""
        rows, length, width = hidden.shape
        parts = self.attention(self.norm_1(hidden)).view(rows, length, 3, HEADS, width // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.mix(mixed.transpose(1, 2).reshape(rows, length, width))
        output: Tensor = hidden + self.down(functional.gelu(self.up(self.norm_2(hidden))))
        return output


class Transformer(nn.Module):
    """10 800 weights or so; `head.weight` is `embedding.weight`."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        """`tokens` [rows, length] int64 to logits [rows, length, vocabulary]."""
        hidden = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            hidden = block(hidden)
        logits: Tensor = self.head(self.norm(hidden))
        return logits


def data(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences that count upwards from a random start by a random stride, and each one's next token; int64."""
    start = torch.randint(0, VOCABULARY, (rows, 1), generator=generator)
    stride = torch.randint(1, 4, (rows, 1), generator=generator)
    sequence = (start + stride * torch.arange(LENGTH + 1)) % VOCABULARY
    return sequence[:, :-1], sequence[:, 1:]


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy over all tokens, taken in float32."""
    return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
