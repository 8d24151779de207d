"""Paths on both sides of Wine."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.wine.errors import WineError
from tools.wine.paths import DEVICES, FORBIDDEN, to_linux, to_windows

NAMES = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="/" + "".join(FORBIDDEN)), min_size=1
).filter(lambda name: name[-1] not in ". " and name.partition(".")[0].rstrip().lower() not in DEVICES)


@pytest.mark.parametrize(
    ("linux", "windows"),
    [
        ("/", "Z:\\"),
        ("/srv/data", "Z:\\srv\\data"),
        ("/srv/with space/größe ∑ 日本", "Z:\\srv\\with space\\größe ∑ 日本"),
        ("/srv/.hidden/a.b.c", "Z:\\srv\\.hidden\\a.b.c"),
    ],
)
def test_both_ways(linux: str, windows: str) -> None:
    assert to_windows(PurePosixPath(linux)) == windows
    assert to_linux(windows) == Path(linux)


@given(st.lists(NAMES, max_size=4))
def test_every_name_that_windows_can_have_comes_back(names: list[str]) -> None:
    path = Path("/", *names)
    assert to_linux(to_windows(path)) == path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("z:\\srv\\data", "/srv/data"),
        ("Z:/srv/data", "/srv/data"),
        ("Z:\\srv\\..\\data\\.", "/data"),
        ("Z:\\..\\..\\data", "/data"),
        ("C:\\users\\me\\Temp", "/env/prefix/drive_c/users/me/Temp"),
        ("c:\\..\\..\\etc", "/env/prefix/drive_c/etc"),
    ],
)
def test_windows_paths_in_their_other_spellings(text: str, expected: str) -> None:
    assert to_linux(text, Path("/env/prefix")) == Path(expected)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/srv/a:b", "holds ':'"),
        ("/srv/a\\b", "holds '\\\\'"),
        ("/srv/what?", "holds '?'"),
        ("/srv/tab\there", "holds '\\t'"),
        ("/srv/ends.", "ends with a dot or a space"),
        ("/srv/ends ", "ends with a dot or a space"),
        ("/srv/NUL", "is a device's name"),
        ("/srv/com1.txt", "is a device's name"),
        ("/srv/\udcff", "is not UTF-8"),
    ],
)
def test_names_that_windows_cannot_have_are_refused(path: str, reason: str) -> None:
    with pytest.raises(WineError) as error:
        to_windows(PurePosixPath(path))
    assert reason in str(error.value)
    assert "rename it or use another folder" in str(error.value)


def test_a_relative_linux_path_is_refused() -> None:
    with pytest.raises(WineError, match="found a relative path"):
        to_windows(PurePosixPath("data"))


@pytest.mark.parametrize("text", ["data", "\\data", "Z:data", "/srv/data", ""])
def test_a_relative_windows_path_is_refused(text: str) -> None:
    with pytest.raises(WineError, match="found no absolute Windows path"):
        to_linux(text)


@pytest.mark.parametrize(("text", "drive"), [("D:\\data", "D:"), ("\\\\host\\share\\data", "host"), ("C:\\data", "C:")])
def test_another_drive_is_refused(text: str, drive: str) -> None:
    with pytest.raises(WineError) as error:
        to_linux(text)
    assert drive in str(error.value)
    assert "expected Z:" in str(error.value)
