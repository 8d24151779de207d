"""Whole runs over planted faults: every fault gets its verdict, and the run its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from conformance.model.capability import KINDS
from conformance.model.record import Record, read_records
from tests.ranks.rank_support import interrupts

ROOT = Path(__file__).resolve().parents[2]
PLANTED = Path(__file__).with_name("planted")
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the planted lane forks its ranks: Linux only")

pytestmark = ON_LINUX


def command(folder: Path, *options: str, lane: str = "linux_gloo") -> list[str]:
    planted = ["--matrices", str(PLANTED / "matrices"), "--suites-folder", str(PLANTED / "suites")]
    return [
        sys.executable,
        "-m",
        "conformance",
        "run",
        "--lane",
        lane,
        "--report-folder",
        str(folder),
        *options,
        *planted,
    ]


def run(
    folder: Path, *options: str, lane: str = "linux_gloo", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *options, lane=lane), cwd=ROOT, capture_output=True, encoding="utf-8", timeout=170,
        env={**os.environ, **(env or {})},
    )  # fmt: skip


def by_cell(folder: Path) -> dict[str, Record]:
    return {record.cell: record for record in read_records(folder / "records.jsonl")}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """One run of everything, from an environment that a cluster job has left its marks on."""
    folder = tmp_path_factory.mktemp("full run é")
    polluted = {"RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "no.such.host", "MASTER_PORT": "1", "SLURM_NTASKS": "8"}
    return folder, run(folder, env=polluted)


@pytest.mark.parametrize(
    ("cell", "verdict", "reason"),
    [
        ("planted/fault[kind=none,world=2]", "PASS", ""),
        ("planted/fault[kind=raise,world=2]", "FAIL", "rank 1 raised ValueError: planted"),
        ("planted/fault[kind=sigkill,world=2]", "CRASH", "rank 1 died: signal 9"),
        ("planted/fault[kind=sigsegv,world=2]", "CRASH", "rank 1 died: signal 11"),
        ("planted/fault[kind=exit0,world=2]", "CRASH", "rank 1 died: exit code 0 without a report"),
        ("planted/fault[kind=exit7,world=2]", "CRASH", "rank 1 died: exit code 7"),
        ("planted/fault[kind=hang,world=2]", "TIMEOUT", "rank 1 still running at the deadline"),
        ("planted/fault[kind=unpicklable,world=2]", "ERROR", "rank 1 returned what is not plain data"),
        ("planted/fault[kind=badlog,world=2]", "FAIL", "see the log"),
        ("planted/check[says=pass]", "PASS", ""),
        ("planted/check[says=fail]", "FAIL", "the answer is not 41"),
        ("planted/check[says=error]", "ERROR", "planted.py"),
        ("planted/check[says=unsupported]", "UNSUPPORTED", "refused with the right error"),
        ("planted/check[says=not_run]", "NOT_RUN", "a second moon"),
        ("planted/known[now=broken]", "XFAIL", "the answer is 41"),
        ("planted/known[now=differently_broken]", "FAIL", "something else"),
        ("planted/known[now=healed]", "XPASS", "planted-issue no longer happens"),
        ("planted/probed", "NOT_RUN", "needs 4096 GPUs, found"),
    ],
)
def test_each_fault_gets_its_verdict(full: tuple[Path, object], cell: str, verdict: str, reason: str) -> None:
    record = by_cell(full[0])[cell]
    assert (record.verdict.value, reason in record.reason) == (verdict, True), record.reason


def test_a_run_with_findings_exits_1_and_writes_every_report(
    full: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, ended = full
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert {"records.jsonl", "run.json", "index.html", "report.md", "junit.xml", "ctrf.json"} <= {
        p.name for p in folder.iterdir()
    }
    header = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert len(header["planned"]) == 18 and header["finished"] and not header["interrupted"]
    assert "index.html" in ended.stdout


def test_a_hang_shows_where_it_hung_and_costs_its_deadline(full: tuple[Path, object]) -> None:
    record = by_cell(full[0])["planted/fault[kind=hang,world=2]"]
    assert "time.sleep" in record.stacks or "misbehave" in record.stacks
    assert record.seconds < 4 + 5


def test_a_log_that_is_not_utf8_is_kept(full: tuple[Path, object]) -> None:
    record = by_cell(full[0])["planted/fault[kind=badlog,world=2]"]
    assert "not UTF-8 <script>" in record.log
    assert "<script>alert(1)" not in (full[0] / "index.html").read_text(encoding="utf-8")


def test_a_record_carries_rule_numbers_and_repeat_command(full: tuple[Path, object]) -> None:
    record = by_cell(full[0])["planted/check[says=pass]"]
    assert record.rules[0].id == "PLANT-01"
    assert record.numbers == {"answer": 42.0}
    assert record.repeat == 'python -m nox -s linux_gloo -- --cell "planted/check[says=pass]"'
    assert record.provenance.packages["deepspeed"]
    assert set(record.provenance.outer_job) >= {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_NTASKS"}


def test_resume_runs_only_what_is_missing(tmp_path: Path) -> None:
    first = run(tmp_path, "--cell", "planted/check[says=pass]")
    assert first.returncode == 0, first.stdout + first.stderr
    with (tmp_path / "records.jsonl").open("ab") as file:
        file.write(b'{"schema_version": 1, "cell": "torn')
    second = run(
        tmp_path, "--resume", "--cell", "planted/check[says=pass]", "--cell", "planted/check[says=unsupported]"
    )
    assert second.returncode == 0, second.stdout + second.stderr
    records = list(read_records(tmp_path / "records.jsonl"))
    assert [record.axes["says"] for record in records] == ["pass", "unsupported"]
    assert "2 cells" in second.stdout


def test_workers_give_the_same_verdicts(full: tuple[Path, object], tmp_path: Path) -> None:
    spread = run(tmp_path, "-n", "2", "--suite", "planted")
    assert spread.returncode == 1, spread.stdout + spread.stderr
    assert {cell: record.verdict for cell, record in by_cell(tmp_path).items()} == {
        cell: record.verdict for cell, record in by_cell(full[0]).items()
    }
    header = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    told = [record.provenance.host for record in by_cell(tmp_path).values()]
    assert all(set(host.capabilities) == set(KINDS) and not host.unknown for host in told), told[0]
    assert header["provenance"]["host"]["capabilities"] == told[0].capabilities


def test_list_prints_ids_and_runs_nothing(tmp_path: Path) -> None:
    listed = run(tmp_path / "none", "--list")
    assert listed.returncode == 0
    assert listed.stdout.split() == list(dict.fromkeys(listed.stdout.split()))
    assert "planted/fault[kind=hang,world=2]" in listed.stdout.split()
    assert len(listed.stdout.split()) == 18
    assert not (tmp_path / "none").exists()


def test_a_lane_that_ran_nothing_never_exits_0(tmp_path: Path) -> None:
    elsewhere = run(tmp_path, "--cell", "planted/check[says=pass]", lane="windows_gloo")
    assert elsewhere.returncode == 3, elsewhere.stdout
    assert "needs Windows (this is Linux)" in elsewhere.stdout
    assert by_cell(tmp_path)["planted/check[says=pass]"].verdict.value == "NOT_RUN"
    nothing = run(tmp_path, "-k", "no_such_word")
    assert nothing.returncode == 3, nothing.stdout


NOT_INSTALLED = """
import importlib.metadata

found = importlib.metadata.version


def version(name):
    if name == "accelerate":
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)


importlib.metadata.version = version
"""


def test_an_integration_that_is_not_installed_is_not_run_and_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NOT_INSTALLED, encoding="utf-8")
    options = ["--cell", "planted/fault[kind=none,*", "--integration", "accelerate", "--integration", "reference"]
    ended = run(tmp_path / "r", *options, env={"PYTHONPATH": str(tmp_path)})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    records = {record.integration: record for record in read_records(tmp_path / "r" / "records.jsonl")}
    assert records["reference"].verdict.value == "PASS"
    assert "accelerate" not in records["reference"].provenance.packages
    lacking = records["accelerate"]
    assert (lacking.verdict.value, lacking.reason) == ("NOT_RUN", "needs accelerate (not installed)")
    assert lacking.remedy == 'python -m pip install "deepspeed-conformance[accelerate]"'


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--lane", "linux_glu"], "found 'linux_glu', expected one of linux_gloo, windows_gloo"),
        (["--suite", "zer"], "found 'zer', expected one of planted"),
        (["--stack", "newest"], "found 'newest', expected one of pinned"),
        (["--cell", "planted/nothing[*]"], "matches no cell"),
        (["--shard", "5/4"], "expected I/N"),
        (["--profile", "quick"], "expected one of smoke, cases, full"),
        (["--integration", "foo"], "found 'foo'"),
        (["--transport", "nccl"], "expected one of gloo"),
        (["--bogus"], "--bogus"),
    ],
)
def test_wrong_usage_exits_2_with_one_message(tmp_path: Path, options: list[str], said: str) -> None:
    ended = run(tmp_path / "none", *options)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


def test_an_unwritable_report_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    ended = run(tmp_path / "file", "--suite", "planted")
    assert ended.returncode == 2
    assert "--report-folder" in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a device that is always full")
def test_a_full_disk_ends_the_run_and_keeps_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").symlink_to("/dev/full")
    ended = run(tmp_path, "--cell", "planted/check[says=pass]")
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert "cannot be written (No space left on device)" in ended.stdout
    assert "PARTIAL" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("handling", "ending"),
    [(signal.default_int_handler, signal.SIGINT), (signal.SIG_IGN, signal.SIGTERM)],
    ids=["in the foreground", "in the background"],
)
def test_an_interrupt_leaves_a_partial_report_and_no_process(
    tmp_path: Path, handling: Any, ending: signal.Signals
) -> None:
    with interrupts(handling):
        running = subprocess.Popen(
            command(tmp_path, "--suite", "planted"),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
    records = tmp_path / "records.jsonl"
    limit = time.monotonic() + 60
    while time.monotonic() < limit and not (records.exists() and records.stat().st_size):
        time.sleep(0.1)
    family = psutil.Process(running.pid).children(recursive=True)
    second = run(tmp_path, "--suite", "planted")
    assert second.returncode == 2 and "another run is writing here" in second.stderr
    if ending != signal.SIGINT:  # which is ignored then, as the user asked
        running.send_signal(signal.SIGINT)
        assert running.poll() is None
    running.send_signal(ending)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 3 or (running.returncode == 1 and "FAIL" in said), said
    assert "PARTIAL: stopped by the user" in said and "Traceback" not in said
    header = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert header["interrupted"] and "finished" not in header
    assert 0 < len(by_cell(tmp_path)) < 18
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive


def test_an_interrupt_ends_workers_too(tmp_path: Path) -> None:
    with interrupts(signal.default_int_handler):
        running = subprocess.Popen(
            command(tmp_path, "--cell", "planted/fault*", "-n", "2"),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
    records = tmp_path / "records.jsonl"
    limit = time.monotonic() + 90
    while time.monotonic() < limit and not (records.exists() and records.stat().st_size):
        time.sleep(0.05)
    family = psutil.Process(running.pid).children(recursive=True)
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=60)
    assert "PARTIAL: stopped by the user" in said and "Traceback" not in said, said
    assert running.returncode in (1, 3) and 0 < len(by_cell(tmp_path)) < 9, said
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive


def test_a_reader_that_leaves_does_not_end_a_run(tmp_path: Path) -> None:
    running = subprocess.Popen(
        command(tmp_path, "--list"), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    assert running.stdout is not None
    running.stdout.close()
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert "Traceback" not in said and "INTERNALERROR" not in said


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('@case("planted/probed", nothing)\n', "", "case 'probed': found no check in"),
        ('"planted/probed"', '"planted/other"', "case 'probed': found no check in"),
        (
            "@case(",
            '@case("planted/more", misbehave)\ndef check_more() -> None: ...\n\n\n@case(',
            "planted/more: found no",
        ),
    ],
    ids=["no_check", "another_name", "no_case"],
)
def test_cases_and_checks_that_do_not_go_together_end_it_before_it_begins(
    tmp_path: Path, workers: str, old: str, new: str, said: str
) -> None:
    folder = tmp_path / "suites_of_mine"
    folder.mkdir()
    text = (PLANTED / "suites" / "planted.py").read_text(encoding="utf-8")
    assert old in text
    (folder / "planted.py").write_text(text.replace(old, new, 1), encoding="utf-8")
    words = [
        "--matrices",
        str(PLANTED / "matrices"),
        "--suites-folder",
        str(folder),
        "--report-folder",
        str(tmp_path / "r"),
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "conformance", "run", "--lane", "linux_gloo", "-n", workers, *words], cwd=ROOT,
        capture_output=True, encoding="utf-8", timeout=170,
    )  # fmt: skip
    assert (ended.returncode, said in ended.stderr) == (2, True), ended.stdout + ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1 and not (tmp_path / "r").exists()
