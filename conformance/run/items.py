"""Cells as pytest items: how the two find each other by name."""

from __future__ import annotations

import re

from conformance.model.cell import Cell

PARAMETER = "conformance_cell"
NODE = re.compile(r"(?:.*/)?test_(?P<suite>\w+)\.py::test_(?P<case>\w+)\[(?P<name>.*)\]")
NO_AXES = "-"
DEFAULT_INTEGRATION = "reference"

Key = tuple[str, str]
"""A cell's id and the integration that it is driven through."""


def item_name(cell: Cell, integration: str) -> str:
    """What stands in an item's brackets: the axes, and the integration where it is not the default."""
    suffix = "" if integration == DEFAULT_INTEGRATION else f"@{integration}"
    return (cell.axes_text or NO_AXES) + suffix


def key_of_node(nodeid: str) -> Key | None:
    """The cell and integration of an item's node id; None for another kind of test."""
    found = NODE.fullmatch(nodeid.replace("\\", "/"))
    if found is None:
        return None
    axes, _, integration = found["name"].partition("@")
    cell = f"{found['suite']}/{found['case']}" + ("" if axes == NO_AXES else f"[{axes}]")
    return cell, integration or DEFAULT_INTEGRATION
