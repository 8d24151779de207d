"""What a rank set is asked to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from conformance.model.setting import Setting


@dataclasses.dataclass(frozen=True)
class Job:
    """One step of one cell, ready to be run by `setting.world` ranks.

    Attributes:
        cell: the cell's id, for logs and process titles.
        scenario: `package.module:function`, called in each rank as `function(setting) -> Observation`.
        setting: what every rank is told; the starter fills in `rank`.
        deadline: seconds from the moment the ranks have the job until they are stopped.
        environment: variables to set, or with None to unset, over what the launcher sets.
        cold: whether only fresh interpreters will do.
    """

    cell: str
    scenario: str
    setting: Setting
    deadline: float
    environment: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    cold: bool = False
