"""What each rank of a cell is told before its scenario starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

AxisValue = str | int | float | bool
Axes = Mapping[str, AxisValue]
Observation = dict[str, Any]
"""Plain data: None, bool, int, float, str, bytes, lists, tuples and dicts of them, numpy arrays."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """The circumstances of one step, the same in every rank but for `rank`.

    Attributes:
        parameters: the cell's axes, overlaid with the step's own parameters.
        rank: the rank that the launcher planned for this process; None where only the launcher will tell (mpiexec).
        world: the number of ranks that were asked for.
        launcher: how ranks learn who they are, `env` or `mpi`.
        transport: what carries collectives, `gloo`, `nccl` or `mpi`.
        device: `cpu` or `cuda`.
        integration: the name of the integration under test.
        folder: an existing absolute folder shared by all ranks and steps of the cell.
    """

    parameters: Mapping[str, Any]
    rank: int | None
    world: int
    launcher: str
    transport: str
    device: str
    integration: str
    folder: Path

    def __getitem__(self, name: str) -> Any:
        """The parameter `name`; a KeyError names those that exist."""
        try:
            return self.parameters[name]
        except KeyError:
            raise KeyError(f"no parameter {name!r}; this step has {', '.join(sorted(self.parameters))}") from None

    def get(self, name: str, default: Any = None) -> Any:
        """The parameter `name`, or `default`."""
        return self.parameters.get(name, default)
