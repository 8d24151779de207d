"""Finding integrations: ours, others', and none; and what they need to be installed."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace

import pytest

from conformance import integrations
from conformance.integrations import registry
from conformance.model.cell import Cell
from conformance.run.lacking import pip_line
from conformance.run.planning import drives


def test_ours_are_found_by_name() -> None:
    assert integrations.names()[:2] == ("reference", "deepspeed")
    for name in integrations.names():
        if integrations.missing(name) is None:
            assert integrations.integration(name).name == name


def test_a_name_that_nobody_registered_is_refused_with_those_that_are() -> None:
    with pytest.raises(KeyError, match=r"no integration 'nobody'; there is reference, deepspeed.*entry point group"):
        integrations.integration("nobody")


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Another project's integration, registered as its installation would."""
    driver = SimpleNamespace(name="theirs")
    module = ModuleType("their_module")
    module.DRIVER = driver  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "their_module", module)
    requires = ["pytest>=1", "no-such-library>=2", "never; extra == 'never'", "neither; python_version < '3'"]
    entry = importlib.metadata.EntryPoint("theirs", "their_module:DRIVER", registry.GROUP)
    vars(entry)["dist"] = SimpleNamespace(name="pytest", requires=requires)

    class Entries(list):  # type: ignore[type-arg]
        names = frozenset({"theirs", "reference"})

    def entry_points(*, group: str, name: str | None = None) -> Entries:
        assert group == registry.GROUP
        return Entries([entry] if name in (None, "theirs") else [])

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    return driver


def test_others_come_by_entry_point(theirs: SimpleNamespace) -> None:
    assert integrations.names() == (*registry._OURS, "theirs")
    assert integrations.integration("theirs") is theirs
    assert integrations.integration("reference").name == "reference", "ours may not be replaced"


def test_what_others_need_is_what_their_distribution_requires(theirs: SimpleNamespace) -> None:
    assert integrations.entry("theirs").libraries == ("pytest", "pytest", "no-such-library")
    assert integrations.missing("theirs") == "no-such-library"
    assert pip_line("theirs", "no-such-library", {}) == "python -m pip install no-such-library"


def test_reference_and_deepspeed_need_nothing_more() -> None:
    assert integrations.missing("reference") is None
    assert integrations.missing("deepspeed") is None


@pytest.mark.parametrize(
    ("groups", "line"),
    [
        ({}, 'python -m pip install "deepspeed-conformance[transformers]"'),
        (
            {"transformers": {"accelerate": "1.15.0", "transformers": "5.24.0"}},
            "python -m pip install accelerate==1.15.0 transformers==5.24.0",
        ),
    ],
)
def test_the_pip_line_has_the_stack_s_versions(groups: Mapping[str, Mapping[str, str]], line: str) -> None:
    assert pip_line("transformers", "transformers", groups) == line


def test_which_integrations_are_driven_through_a_case() -> None:
    def driven(**fields: object) -> set[str]:
        cell = Cell("zero", "train", {}, "Trains", ("ZERO-01",), 60.0, **fields)  # type: ignore[arg-type]
        return {name for name in ("reference", "deepspeed", "accelerate", "transformers") if drives(name, cell)}

    assert driven() == {"reference", "deepspeed"}
    assert driven(core=True) == {"reference", "deepspeed", "accelerate", "transformers"}
    assert driven(integrations=("accelerate",)) == {"accelerate"}
