"""Finding integrations: ours, others', and none."""

from __future__ import annotations

import importlib.metadata
from types import SimpleNamespace

import pytest

from conformance import integrations
from conformance.integrations import registry


def test_ours_are_found_by_name() -> None:
    assert integrations.names()[:2] == ("reference", "deepspeed")
    for name in ("reference", "deepspeed"):
        assert integrations.integration(name).name == name


def test_a_name_that_nobody_registered_is_refused_with_those_that_are() -> None:
    with pytest.raises(KeyError, match=r"no integration 'nobody'; there is reference, deepspeed.*entry point group"):
        integrations.integration("nobody")


def test_others_come_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = SimpleNamespace(name="theirs")
    entry = SimpleNamespace(name="theirs", load=lambda: theirs)

    class Entries(list):  # type: ignore[type-arg]
        names = frozenset({"theirs", "reference"})

    def entry_points(*, group: str, name: str | None = None) -> Entries:
        assert group == registry.GROUP
        return Entries([entry] if name in (None, "theirs") else [])

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert integrations.names() == (*registry._OURS, "theirs")
    assert integrations.integration("theirs") is theirs
    assert integrations.integration("reference").name == "reference", "ours may not be replaced"
