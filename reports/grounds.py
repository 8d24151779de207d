"""What a report rests on, said before anything else: which devices, which systems, and which lanes never ran."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from conformance.matrix import MATRICES
from conformance.matrix.lane import Lane, LaneFile
from conformance.matrix.toml_file import read_toml
from reports import places
from reports.matrix import Matrix


@dataclasses.dataclass(frozen=True)
class Grounds:
    """What a report rests on.

    Attributes:
        limits: sentences on what no column shows.
        never_run: lanes that this project has, and of which nothing ran, each in a reader's words.
    """

    limits: tuple[str, ...]
    never_run: Mapping[str, str]


def grounds(matrix: Matrix) -> Grounds:
    """What no column of the matrix shows. Empty where nothing ran at all."""
    ran = [column for column in matrix.columns if matrix.tally(column).ran]
    if not ran:
        return Grounds((), {})
    limits = []
    if all(places.on_cpu(column) for column in ran):
        limits.append("No GPU has run: every column here computed on a CPU.")
    windows = [column for column in ran if places.system(column) == "Windows"]
    if windows and all(column.key.wine for column in windows):
        limits.append(
            "No Windows machine has run: the Windows columns ran under Wine on Linux, where file locks, signals and "
            "speed differ from Windows."
        )
    present = {column.key.lane for column in ran}
    never = {name: places.of_lane(lane) for name, lane in _lanes().items() if name not in present}
    return Grounds(tuple(limits), never)


@functools.cache
def _lanes() -> Mapping[str, Lane]:
    found = (read_toml(path, LaneFile).lane for path in sorted((MATRICES / "lanes").glob("*.toml")))
    return {lane.name: lane for lane in found}
