"""Launchers that fail, hang or leave ranks out are told, and nothing of them is left running."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from conformance.model.setting import Setting
from conformance.suites.common import launching

WORKER = """
import sys, time, pickle, subprocess
from pathlib import Path
kind, papers = sys.argv[1], Path(sys.argv[-1])
if kind == "hang":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    papers.with_name("child").write_text(str(child.pid))
    time.sleep(60)
if kind == "fail":
    print("what went wrong")
    sys.exit(7)
from conformance.suites.common.launching import report
report(papers, int(sys.argv[2]), {"world": pickle.loads(papers.read_bytes()).world, "arguments": sys.argv[1:-1]})
"""


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting({}, 0, 1, "env", "gloo", "cpu", "bare", tmp_path)


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "worker.py"
    path.write_text(WORKER, encoding="utf-8")
    monkeypatch.setattr(launching, "WORKER", "--")
    return str(path)


def test_observations_come_back_by_rank(setting: Setting, worker: str) -> None:
    seen = launching.launch(setting, [[worker, "report", "1"], [worker, "report", "0"]], world=2, seconds=60)
    assert seen["exits"] == [0, 0]
    assert [rank["arguments"][1] for rank in seen["ranks"]] == ["0", "1"]
    assert seen["ranks"][0]["world"] == 2


def test_a_launcher_that_fails(setting: Setting, worker: str) -> None:
    seen = launching.launch(setting, [[worker, "fail"]], world=2, seconds=60)
    assert seen["exits"] == [7]
    assert seen["ranks"] == [None, None]
    assert "what went wrong" in seen["output"]


def test_a_launcher_that_hangs_is_ended_with_its_children(setting: Setting, worker: str) -> None:
    begin = time.monotonic()
    seen = launching.launch(setting, [[worker, "hang"]], world=1, seconds=4)
    assert time.monotonic() - begin < 30
    assert seen["exits"] == [None]
    child = int((setting.folder / "launched" / "child").read_text(encoding="utf-8"))
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
