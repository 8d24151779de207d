"""The suites' models in the words of a short script."""

from __future__ import annotations

import dataclasses
import textwrap


@dataclasses.dataclass(frozen=True)
class Task:
    """What a script trains, as code.

    Attributes:
        model: defines the class `Model(seed)`.
        loss: an expression of `module`, `inputs` and `targets`, or of `output`.
        data: makes `inputs` and `targets` of `rows` rows with `generator`.
        output: a statement before the loss; empty for none.
        casts: whether inputs are cast to the dtype that the model computes in.
    """

    model: str
    loss: str
    data: str
    output: str = ""
    casts: bool = True


ROWS = 16
"""Rows of an optimizer step, of all ranks together."""

_DATA = f"""\
inputs = torch.randn({ROWS}, 17, generator=generator)
targets = torch.sin(inputs[:, :5] + inputs[:, 5:10])"""
_LOSS = "nn.functional.mse_loss(module(inputs).float(), targets)"


def _sequential(layers: str, more: str = "", forward: str = "") -> str:
    made = f"""\
class Model(nn.Sequential):
    def __init__(self, seed=0):
        torch.manual_seed(seed)
        super().__init__({layers})
{textwrap.indent(more, " " * 8)}"""
    return made.rstrip() + (
        f"\n\n    def forward(self, inputs):\n{textwrap.indent(forward, ' ' * 8)}" if forward else ""
    )


_LAYERS = "nn.Linear(17, 63), nn.Tanh(), nn.Linear(63, 5)"


MLP = Task(_sequential("nn.Linear(17, 63), nn.Tanh(), nn.Linear(63, 62), nn.Tanh(), nn.Linear(62, 5)"), _LOSS, _DATA)
WIDE = Task(
    _sequential("nn.Linear(17, 1151), nn.Tanh(), nn.Linear(1151, 1151), nn.Tanh(), nn.Linear(1151, 5)"), _LOSS, _DATA
)
SCALAR = Task(
    _sequential(
        _LAYERS,
        "self.scale = nn.Parameter(torch.tensor(1.1))  # no dimensions",
        "return super().forward(inputs) * self.scale",
    ),
    _LOSS,
    _DATA,
)
EMPTY = Task(
    _sequential(
        _LAYERS,
        "self.nothing = nn.Parameter(torch.empty(0, 5))  # no elements",
        "return super().forward(inputs) + self.nothing.sum()",
    ),
    _LOSS,
    _DATA,
)


def _several(returned: str) -> str:
    return f"""\
class Model(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.layers, self.side = nn.Linear(17, 5), nn.Linear(5, 3)

    def forward(self, inputs):
        first = self.layers(inputs)
        return {returned}"""


IN_TUPLE = Task(
    _several("first, self.side(first)"),
    "nn.functional.mse_loss(first.float(), targets) + 0.1 * side.float().square().mean()",
    _DATA,
    "first, side = module(inputs)",
)
IN_MAPPING = Task(
    _several('{"first": first, "side": self.side(first)}'),
    'nn.functional.mse_loss(output["first"].float(), targets) + 0.1 * output["side"].float().square().mean()',
    _DATA,
    "output = module(inputs)",
)
CONVOLUTION = Task(
    """\
class Model(nn.Sequential):
    def __init__(self, seed=0):
        torch.manual_seed(seed)
        first, second = nn.Conv2d(3, 11, 3, padding=1), nn.Conv2d(11, 13, 3, stride=2)
        head = nn.Linear(13 * 2 * 2, 5)
        super().__init__(first, nn.BatchNorm2d(11), nn.Tanh(), second, nn.Tanh(), nn.Flatten(), head)""",
    "nn.functional.cross_entropy(module(inputs).float(), targets)",
    f"""\
inputs = torch.randn({ROWS}, 3, 6, 6, generator=generator)
targets = inputs[:, 0, 0, :5].argmax(dim=1)""",
)
TRANSFORMER = Task(
    """\
class Model(nn.Sequential):
    def __init__(self, seed=0):
        torch.manual_seed(seed)
        block = nn.TransformerEncoderLayer(24, 2, 48, dropout=0.0, batch_first=True, bias=False)
        super().__init__(nn.Embedding(33, 24), block, nn.Linear(24, 33, bias=False))
        self[2].weight = self[0].weight  # tied""",
    "nn.functional.cross_entropy(module(inputs).float().flatten(0, 1), targets.flatten())",
    f"""\
tokens = (torch.randint(0, 33, ({ROWS}, 1), generator=generator) + torch.arange(8)) % 33
inputs, targets = tokens[:, :-1], tokens[:, 1:]""",
    casts=False,
)

TASKS = {
    "mlp": MLP,
    "wide": WIDE,
    "scalar": SCALAR,
    "empty": EMPTY,
    "in_tuple": IN_TUPLE,
    "in_mapping": IN_MAPPING,
    "convolution": CONVOLUTION,
    "transformer": TRANSFORMER,
}
"""By the names that axes have for them."""
