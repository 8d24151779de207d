"""The file of pins: how it is read, and what the project's own one holds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.wine.errors import WineError
from tools.wine.requirements import read_requirements

ROOT = Path(__file__).resolve().parents[3]
CANNOT_LOAD = {"numpy", "pydantic", "pydantic-core", "rpds-py"}
"""What Wine 8 cannot load in the versions of the pinned stack."""


def _read(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pins.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_pins_and_what_is_built_here(tmp_path: Path) -> None:
    read = read_requirements(
        _read(tmp_path, "# head\n\n--no-binary Deep_Speed\ndeep.speed==1.0 # why\ntorch==2.13.0+cpu\n")
    )
    assert [str(pin) for pin in read.pins] == ["deep-speed==1.0", "torch==2.13.0+cpu"]
    assert read.built == {"deep-speed"}


def test_the_digest_tells_content_and_nothing_else(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        return read_requirements(_read(tmp_path, text)).digest

    first = digest("a==1\nb==2\n")
    assert digest("# said otherwise\nB==2\n\na==1 # twice\n") == first
    assert digest("a==1\nb==3\n") != first
    assert digest("a==1\n") != first
    assert digest("--no-binary b\na==1\nb==2\n") != first


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("numpy", "numpy"),
        ("numpy>=1.26", "numpy>=1.26"),
        ("numpy==1.*", "numpy==1.*"),
        ("numpy==1.26,<2", "numpy==1.26,<2"),
        ("fsspec[http]==1", "fsspec[http]==1"),
        ("colorama==0.4; sys_platform == 'win32'", "colorama"),
        ("numpy @ file:///srv/numpy.whl", "numpy @"),
        ("--index-url simple", "--index-url"),
        ("numpy = 1", "numpy = 1"),
    ],
)
def test_anything_but_an_exact_pin_is_refused_with_its_line(tmp_path: Path, line: str, found: str) -> None:
    with pytest.raises(WineError) as error:
        read_requirements(_read(tmp_path, f"# first\n{line}\n"))
    assert "pins.txt:2: found " in str(error.value)
    assert found in str(error.value)
    assert "expected name==version" in str(error.value)


def test_a_name_pinned_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WineError, match=r"pins\.txt:2: found my-name==2 after my-name==1"):
        read_requirements(_read(tmp_path, "my.name==1\nMy_Name==2\n"))


def test_building_what_is_not_pinned_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WineError, match=r"pins\.txt:1: found --no-binary other"):
        read_requirements(_read(tmp_path, "--no-binary other\na==1\n"))


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_a_file_without_pins_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(WineError, match="found no pins"):
        read_requirements(_read(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WineError, match=r"absent\.txt: cannot be read"):
        read_requirements(tmp_path / "absent.txt")


def test_the_versions_are_the_pinned_stacks_where_wine_can_load_them() -> None:
    lock = (ROOT / "matrices" / "stacks" / "pinned.lock.txt").read_text(encoding="utf-8")
    locked = {canonicalize_name(name): version for name, version in re.findall(r"(?m)^([\w.-]+)==([^;\s]+)", lock)}
    pins = {pin.name: str(pin.version) for pin in read_requirements().pins}
    differing = {name for name in pins.keys() & locked.keys() if pins[name] != locked[name]}
    assert differing == CANNOT_LOAD


def test_it_holds_what_the_harness_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [Requirement(text) for text in (*project["dependencies"], *extras["harness"], *extras["mpi"])]
    pins = {pin.name: pin.version for pin in read_requirements().pins}
    for requirement in needed:
        name = canonicalize_name(requirement.name)
        if name != canonicalize_name(project["name"]):
            assert name in pins
            assert pins[name] in requirement.specifier
