"""A lane: the platform, the launcher and the transports that cells run on."""

from __future__ import annotations

from typing import Literal

import pydantic

from conformance.matrix.suite import Name, Need
from conformance.model.record import Frozen

Transport = Literal["gloo", "nccl", "mpi"]


class Lane(Frozen):
    """One lane.

    Attributes:
        os: the operating system whose semantics the lane is about.
        launcher: how ranks learn who they are.
        transports: the first is the default.
        device: `cpu`, `cuda`, or `auto`: a GPU when one is found, else the CPU.
        ranks: how rank sets are started, unless --ranks says otherwise.
        needs: probes that hold for every cell of the lane.
        deadline_factor: multiplies the deadlines of cases where starting or running ranks is slower.
        environment: variables that every rank of the lane gets.
    """

    name: Name
    title: str = pydantic.Field(min_length=1)
    os: Literal["linux", "windows"]
    launcher: Literal["env", "mpi"]
    transports: tuple[Transport, ...] = pydantic.Field(min_length=1)
    device: Literal["cpu", "cuda", "auto"]
    ranks: Literal["forked", "cold", "prewarmed"]
    needs: tuple[Need, ...] = ()
    deadline_factor: float = pydantic.Field(default=1.0, ge=1.0, le=20.0)
    environment: dict[str, str] = pydantic.Field(default_factory=dict)


class LaneFile(Frozen):
    """matrices/lanes/<name>.toml."""

    lane: Lane
