"""A real Windows environment under a real Wine."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.ranks.rank_support import interrupts
from tools.wine import runner
from tools.wine.doctor import examine
from tools.wine.environment import WineEnvironment
from tools.wine.requirements import read_requirements

pytestmark = pytest.mark.wine
ROOT = Path(__file__).resolve().parents[3]
SECONDS = 120.0


def _answer(environment: WineEnvironment, code: str, *words: str, cwd: Path | None = None) -> str:
    finished = runner.capture(environment, ["python", "-c", code, *words], timeout=SECONDS, cwd=cwd)
    assert finished.code == 0, finished.text
    return finished.text.strip()


def test_it_is_windows(windows: WineEnvironment) -> None:
    assert _answer(windows, "import sys; print(sys.platform, sys.getwindowsversion().major)") == "win32 10"


@pytest.mark.slow
def test_all_that_the_doctor_examines_works(windows: WineEnvironment) -> None:
    findings = list(examine(windows, read_requirements()))
    assert [str(finding) for finding in findings if not finding.ok] == []
    assert findings[-1].what == "mpiexec"


def test_arguments_folders_and_output_beyond_ascii(windows: WineEnvironment, tmp_path: Path) -> None:
    folder = tmp_path / "größe ∑ 日本"
    folder.mkdir()
    code = "import os, sys; open('file', 'w').close(); print(os.getcwd()); print(sys.argv[1:])"
    cwd, words = _answer(windows, code, "naïve →", 'say "yes"', "", cwd=folder).splitlines()
    assert windows.linux(cwd) == folder
    assert words == str(["naïve →", 'say "yes"', ""])
    assert (folder / "file").exists()


@pytest.mark.parametrize("code", [0, 1, 5, 255])
def test_exit_codes(windows: WineEnvironment, code: int) -> None:
    assert runner.run(windows, ["python", "-c", f"raise SystemExit({code})"], write=lambda text: None) == code


def test_a_host_that_does_not_know_its_name_is_found_all_the_same(windows: WineEnvironment) -> None:
    code = "import socket; socket.gethostname = lambda: 'no-such-host'; print(socket.gethostbyname('no-such-host'))"
    assert _answer(windows, code) == "127.0.0.1"


def test_programs_of_the_environment_are_on_its_path(windows: WineEnvironment) -> None:
    code = (
        "import shutil; print([shutil.which(name) is not None for name in ('python', 'pytest', 'torchrun', 'mpiexec')])"
    )
    assert _answer(windows, code) == "[True, True, True, True]"
    finished = runner.capture(windows, [windows.home / "Scripts" / "pytest.exe", "--version"], timeout=SECONDS)
    assert finished.text.startswith("pytest ")


def test_compiled_files_stay_out_of_the_sources(windows: WineEnvironment, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("x = 1\n", encoding="utf-8")
    assert _answer(windows, "import module; print(module.x)", cwd=tmp_path) == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["module.py"]
    assert list(windows.cache.rglob("module.cpython-311.pyc"))


def test_a_windows_process_that_outlives_its_parent_is_ended(windows: WineEnvironment) -> None:
    code = (
        "import subprocess, sys; "
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], creationflags=8)"  # DETACHED_PROCESS
    )
    finished = runner.capture(windows, ["python", "-c", code], timeout=SECONDS)
    assert finished.code == 0
    assert [name.partition(" ")[0] for name in finished.ended] == ["python.exe"]


def test_the_deadline_ends_all_ranks_of_an_mpiexec(windows: WineEnvironment) -> None:
    code = "import time; print('here', flush=True); time.sleep(600)"
    started = time.monotonic()
    finished = runner.capture(windows, ["mpiexec", "-localonly", "-n", "2", "python", "-c", code], timeout=20)
    assert finished.code is None
    assert finished.text.count("here") == 2
    assert len([name for name in finished.ended if name.startswith("python.exe")]) == 2
    assert time.monotonic() - started < 60


def test_ctrl_c_is_one_for_windows_too(windows: WineEnvironment) -> None:
    code = (
        "import sys, time\n"
        "try: print('started', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt: print('cleaned up', flush=True); sys.exit(2)"
    )
    command = [
        sys.executable,
        "-m",
        "tools.wine",
        "--wine",
        str(windows.wine),
        "run",
        "--env",
        str(windows.folder),
    ]
    with interrupts(signal.default_int_handler):
        started = subprocess.Popen(
            [*command, "--", "python", "-c", code],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
    with started as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=SECONDS)
    assert output.splitlines()[-1] == "cleaned up"
    assert process.returncode == 2
