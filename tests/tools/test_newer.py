"""Newer pins for a stack: which are newer, and how its file changes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools import newer
from tools.bisect.errors import TroubleError

TEXT = """# A stack
[stack]
name = "small"
title = "Small: torch 2.13.0, deepspeed 0.18.9"
python = ">=3.11,<3.14"

[packages]
torch = "2.13.0"
deepspeed = "0.18.9" # the last of its line
rich = "0.18.9"

# A group
[groups.extra]
deepspeed = "0.18.9"
"""
INDEX = {"torch": ["2.12.0", "2.13.0"], "deepspeed": ["0.18.9", "0.19.8"], "rich": ["0.18.9", "15.0.0"]}


def test_what_is_newer() -> None:
    pins = {"torch": "2.13.0", "deepspeed": "0.9.5", "gone": "1"}
    assert newer.newer_pins(pins, lambda name: {**INDEX, "gone": []}[name]) == {"deepspeed": "0.19.8"}
    assert newer.newer_pins({"deepspeed": "0.20.0"}, lambda name: INDEX[name]) == {}, "a pin is never lowered"


def test_the_file_changes_in_the_pin_and_the_title_only() -> None:
    changed = newer.raised(TEXT, {"deepspeed": "0.18.9"}, {"deepspeed": "0.19.8"})
    expected = TEXT.replace("deepspeed 0.18.9", "deepspeed 0.19.8").replace(
        'deepspeed = "0.18.9" #', 'deepspeed = "0.19.8" #'
    )
    assert changed == expected
    assert tomllib.loads(changed)["groups"]["extra"] == {"deepspeed": "0.18.9"}


class TestCommand:
    @pytest.fixture
    def matrices(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (tmp_path / "stacks").mkdir()
        (tmp_path / "stacks" / "small.toml").write_text(TEXT, encoding="utf-8")
        monkeypatch.setattr(newer, "releases_of", lambda name: INDEX[name])
        return tmp_path

    def test_all_that_the_stack_pins(self, matrices: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert newer.main(["small", "--matrices", str(matrices)]) == 0
        assert capsys.readouterr().out == "deepspeed 0.18.9 → 0.19.8\nrich 0.18.9 → 15.0.0\n"
        packages = tomllib.loads((matrices / "stacks" / "small.toml").read_text(encoding="utf-8"))["packages"]
        assert packages == {"torch": "2.13.0", "deepspeed": "0.19.8", "rich": "15.0.0"}

    def test_nothing_newer_ends_with_1_and_writes_nothing(
        self, matrices: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert newer.main(["small", "torch", "--matrices", str(matrices)]) == 1
        assert "nothing is newer than what small.toml pins" in capsys.readouterr().out
        assert (matrices / "stacks" / "small.toml").read_text(encoding="utf-8") == TEXT

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["small", "numpy"], "--package: found 'numpy', expected one of those in small.toml: torch,"),
            (["big"], "big.toml"),
        ],
    )
    def test_wrong_words_end_with_2(
        self, matrices: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
    ) -> None:
        assert newer.main([*words, "--matrices", str(matrices)]) == 2
        assert message in capsys.readouterr().err

    def test_without_a_network_it_ends_with_3(
        self, matrices: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def offline(name: str) -> list[str]:
            raise TroubleError("the package index cannot be reached")

        monkeypatch.setattr(newer, "releases_of", offline)
        assert newer.main(["small", "--matrices", str(matrices)]) == 3
        assert "cannot be reached" in capsys.readouterr().err
