"""When is an environment the one that was asked for?"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tools.wine.requirements import read_requirements
from tools.wine.stamp import FILE_NAME, Stamp, read_stamp, stamp_for


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    folder = tmp_path / "interpreter"
    folder.mkdir()
    for name in ("python.exe", "python3.dll", "python311.dll"):
        (folder / name).write_bytes(name.encode())
    return folder


@pytest.fixture
def stamp(interpreter: Path, tmp_path: Path) -> Stamp:
    return stamp_for(tmp_path, interpreter, read_requirements(), "wine-8.0")


def test_it_comes_back_from_disk(stamp: Stamp, tmp_path: Path) -> None:
    stamp.write(tmp_path)
    found = read_stamp(tmp_path)
    assert found == stamp
    assert stamp.differences(found) == []


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Stamp)])
def test_every_field_decides(stamp: Stamp, field: str) -> None:
    other = {"layout": stamp.layout + 1, "finished": False}.get(field, "another")
    changed = dataclasses.replace(stamp, **{field: other})
    assert stamp.differences(changed) == [field]


def test_another_build_of_the_same_python_is_another_environment(
    stamp: Stamp, interpreter: Path, tmp_path: Path
) -> None:
    (interpreter / "python311.dll").write_bytes(b"3.11.12")
    assert stamp_for(tmp_path, interpreter, read_requirements(), "wine-8.0").differences(stamp) == ["python"]


def test_other_pins_are_another_environment(stamp: Stamp, interpreter: Path, tmp_path: Path) -> None:
    pins = tmp_path / "pins.txt"
    pins.write_text("numpy==1.26.4\n", encoding="utf-8")
    assert stamp_for(tmp_path, interpreter, read_requirements(pins), "wine-8.0").differences(stamp) == ["requirements"]


def test_nothing_there_differs(stamp: Stamp, tmp_path: Path) -> None:
    assert read_stamp(tmp_path) is None
    assert stamp.differences(None) == ["all: it is not there"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"python": "a"}', '{"another": 1}', "null", "{"])
def test_a_stamp_of_another_kind_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text, encoding="utf-8")
    assert read_stamp(tmp_path) is None
