"""A perceptron with several outputs, of which the loss takes some."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from conformance.models import mlp
from conformance.models.mlp import Mlp

SIDE = 3
SHARE = 0.1
"""What the second output counts in the loss."""


class InTuple(Mlp):
    """Returns the MLP's output, a second one of its own layer, and a third that no loss takes."""

    def __init__(self) -> None:
        super().__init__()
        self.side = nn.Linear(mlp.OUTPUTS, SIDE)
        self.spare = nn.Linear(mlp.OUTPUTS, SIDE)

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[rows, 17] to [rows, 5], [rows, 3] and [rows, 3]."""
        first = Mlp.forward(self, inputs)
        return first, self.side(first), self.spare(first)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """See `outputs`."""
        return self.outputs(inputs)


class InMapping(InTuple):
    """The same outputs by name, the second in a mapping of its own."""

    def forward(self, inputs: Tensor) -> Mapping[str, object]:  # type: ignore[override]
        """See `outputs`."""
        first, side, spare = self.outputs(inputs)
        return {"first": first, "more": {"side": side}, "spare": spare}


def loss_of_tuple(output: tuple[Tensor, Tensor, Tensor], targets: Tensor) -> Tensor:
    """The MLP's loss, and SHARE of the second output's mean square; float32."""
    first, side, _ = output
    return mlp.loss(first, targets) + SHARE * side.float().square().mean()


def loss_of_mapping(output: dict[str, object], targets: Tensor) -> Tensor:
    """See `loss_of_tuple`."""
    more = output["more"]
    assert isinstance(more, dict)
    return loss_of_tuple((output["first"], more["side"], output["spare"]), targets)  # type: ignore[arg-type]
