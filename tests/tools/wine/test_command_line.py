"""`python -m tools.wine`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tools.wine.__main__ import main
from tools.wine.environment import FOLDER_VARIABLE, PYTHON_VARIABLE, WineEnvironment

StandIn = Callable[..., WineEnvironment]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (FOLDER_VARIABLE, PYTHON_VARIABLE):
        monkeypatch.delenv(name, raising=False)


def _run(environment: WineEnvironment, *words: str) -> int:
    return main(["--wine", str(environment.wine), "run", "--env", str(environment.folder), *words])


def test_run_hands_on_arguments_output_and_exit_code(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; print(sys.argv[1:]); sys.exit(5)"
    assert _run(stand_in(), "--", "python", "-c", code, "--lane", "windows_gloo", "--set") == 5
    assert capsys.readouterr().out == "['--lane', 'windows_gloo', '--set']\n"


def test_run_sets_variables_and_folder(stand_in: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import os; print(os.getcwd(), os.environ['A'], os.environ['B'])"
    words = ["--cwd", str(tmp_path), "--set", "A=1=2", "--set", "B=", "--", "python", "-c", code]
    assert _run(stand_in(), *words) == 0
    assert capsys.readouterr().out == f"{tmp_path} 1=2 \n"


def test_the_environment_may_come_from_a_variable(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = stand_in()
    monkeypatch.setenv(FOLDER_VARIABLE, str(environment.folder))
    assert main(["--wine", str(environment.wine), "run", "--", "python", "-c", "print('there')"]) == 0
    assert capsys.readouterr().out == "there\n"


def test_doctor_says_what_fails(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    environment = stand_in("print('wine: cannot find python.exe'); sys.exit(1)")
    assert main(["--wine", str(environment.wine), "doctor", "--env", str(environment.folder)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("ok   wine: ")
    assert second.startswith("FAIL python: found exit code 1: wine: cannot find python.exe; ")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["make", "--into", "DEST"], f"found neither --python nor {PYTHON_VARIABLE}"),
        (["make", "--python", "DEST/absent", "--into", "DEST"], "absent: found no folder"),
        (["run", "--env", "DEST", "--", "python"], "found no wine.json"),
        (["doctor", "--env", "DEST"], "found no wine.json"),
    ],
)
def test_errors_are_one_line_and_exit_code_1(
    words: list[str], error: str, tmp_path: Path, stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    wine = stand_in().wine
    words = [word.replace("DEST", str(tmp_path / "none")) for word in words]
    assert main(["--wine", str(wine), *words]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert output.err.count("\n") == 1
    assert error in output.err


@pytest.mark.parametrize(
    "words", [[], ["make"], ["run", "--", "python"], ["run", "--env", "x", "--set", "novalue"], ["fly"]]
)
def test_wrong_usage_is_exit_code_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert "usage: python -m tools.wine" in capsys.readouterr().err
