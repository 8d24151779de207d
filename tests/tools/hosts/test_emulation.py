"""Each kind of host is what it says: a program that runs there looks about. Needs no torch."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tools.hosts import ground, memory
from tools.hosts.errors import EmulationError
from tools.hosts.ground import obstacle
from tools.hosts.kind import PLAIN, Kind
from tools.hosts.kinds import KINDS, MIB, NAMELESS_USER
from tools.hosts.running import ROOT, host, nothing_left

HERE = ground.this_machine()
BY_NAME = {kind.name: kind for kind in KINDS}
CAPTURED: dict[str, Any] = {"capture_output": True, "encoding": "utf-8", "timeout": 60}
LOOK = """
import json, locale, os, shutil, signal, socket, sys, tempfile
from pathlib import Path

def can(what):
    try:
        what()
    except Exception as error:
        return type(error).__name__
    return True

def passwd():
    import pwd
    return pwd.getpwuid(os.getuid())

def ipv6():
    with socket.socket(socket.AF_INET6) as listener:
        listener.bind(("::1", 0))

mine, checkout = Path(sys.argv[1]), Path(sys.argv[2])
print(json.dumps({
    "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0,
    "shm": shutil.disk_usage("/dev/shm").total if Path("/dev/shm").is_dir() else 0,
    "locale": locale.getencoding(), "locale works": can(lambda: locale.setlocale(locale.LC_ALL, "")),
    "temporary": tempfile.gettempdir(), "home": os.environ.get("HOME"),
    "records": can(lambda: (mine / "x").write_text("")), "checkout": os.access(checkout, os.W_OK),
    "mode": oct((mine / "x").stat().st_mode & 0o777),
    "uid": os.getuid() if hasattr(os, "getuid") else None, "passwd": can(passwd),
    "interfaces": sorted(name for _, name in socket.if_nameindex()), "ipv6": can(ipv6),
    "name": socket.gethostname(), "name resolves": can(lambda: socket.getaddrinfo(socket.gethostname(), None)),
    "ignored": sorted(each.name for each in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT))
                      if signal.getsignal(each) == signal.SIG_IGN),
    "stdin": can(lambda: os.fstat(0)), "groups": Path("/proc/self/cgroup").read_text() if os.name == "posix" else "",
}))
"""


def look(kind: Kind, into: Path) -> dict[str, Any]:
    """What a program sees on a kind of host."""
    with host(kind, [sys.executable, "-c", LOOK, str(into), str(ROOT)], into) as (command, variables):
        ended = subprocess.run(command, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, **CAPTURED)
    assert ended.returncode == 0, ended.stderr
    seen: dict[str, Any] = json.loads(ended.stdout)
    return seen


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return look(PLAIN, tmp_path_factory.mktemp("plain"))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach: pytest's own are their maker's alone."""
    with tempfile.TemporaryDirectory(prefix="conformance-hosts-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


EXPECTED: dict[str, dict[str, Any]] = {
    "shm-64mb": {"shm": 64 * MIB},
    "locale-gbk": {"locale": "GBK", "locale works": True},
    "locale-euc-jp": {"locale": "EUC-JP", "locale works": True},
    "locale-c": {"locale": "ANSI_X3.4-1968"},
    "no-home": {"home": None},
    "read-only-checkout": {"checkout": False, "records": True},
    "no-ipv6": {"interfaces": ["eth0", "eth1", "lo"], "ipv6": "OSError"},
    "loopback-only": {"interfaces": ["lo"]},
    "unresolved-name": {"name": "no-such-host.invalid", "name resolves": "gaierror"},
    "signals-ignored": {"ignored": ["SIGHUP", "SIGINT"]},
    "stdin-closed": {"stdin": "OSError"},
    "umask-077": {"mode": "0o600"},
}


@pytest.mark.skipif(sys.platform != "linux", reason="these kinds are Linux's")
@pytest.mark.parametrize("name", EXPECTED)
def test_a_program_sees_what_is_special_and_nothing_else(name: str, tmp_path: Path, plain: dict[str, Any]) -> None:
    if why := obstacle(BY_NAME[name], HERE):
        pytest.skip(f"{name} {why}")
    seen = look(BY_NAME[name], tmp_path)
    expected = EXPECTED[name]
    assert {each: seen[each] for each in expected} == expected
    consequences = {"name resolves", "ipv6", "records", "locale works", "temporary"}
    assert {each for each in seen if seen[each] != plain[each]} - consequences <= set(expected)


@pytest.mark.skipif(sys.platform != "linux", reason="users with numbers are Linux's")
def test_a_nameless_user_has_no_entry_and_no_rights_and_reaches_the_interpreter(open_folder: Path) -> None:
    kind = BY_NAME["nameless-user"]
    if why := obstacle(kind, HERE):
        pytest.skip(f"nameless-user {why}")
    seen = look(kind, open_folder)
    assert (seen["uid"], seen["passwd"], seen["home"]) == (NAMELESS_USER, "KeyError", "/")
    assert (seen["records"], seen["checkout"]) == (True, False)


def test_the_folder_for_temporary_files_has_the_name_and_is_gone_afterwards(tmp_path: Path) -> None:
    folder = Path(look(BY_NAME["temporary-folder"], tmp_path)["temporary"])
    assert folder.name == "with spaces and 漢字"
    assert not folder.parent.exists()


def test_memory_is_limited_by_a_group_that_is_gone_afterwards(tmp_path: Path) -> None:
    kind = BY_NAME["memory-3gib"]
    if why := obstacle(kind, HERE):
        pytest.skip(f"memory-3gib {why}")
    assert memory.PREFIX in look(kind, tmp_path)["groups"]
    assert not list(memory.GROUPS.rglob(f"{memory.PREFIX}*"))


def test_a_machine_without_cgroups_says_so(tmp_path: Path) -> None:
    assert memory.obstacle(tmp_path)
    with pytest.raises(EmulationError), memory.limited(1 << 30, tmp_path):
        pass


def test_other_work_runs_while_the_host_is_there_and_not_after(tmp_path: Path) -> None:
    this = psutil.Process()
    before = set(this.children(recursive=True))
    with host(BY_NAME["busy"], [sys.executable, "-c", "pass"], tmp_path):
        working = set(this.children(recursive=True)) - before
        assert len(working) == 2 * (psutil.cpu_count() or 1)
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in working)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a host that is arranged")
def test_a_host_that_cannot_be_arranged_says_why(tmp_path: Path) -> None:
    with host(BY_NAME["umask-077"], ["/no/such/program"], tmp_path) as (command, variables):
        ended = subprocess.run(command, cwd=ROOT, env=variables, **CAPTURED)
    assert ended.returncode == 125
    assert "the host could not be arranged" in ended.stderr and "/no/such/program" in ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="Windows has no orphans to adopt")
def test_what_outlives_a_run_is_ended_and_named() -> None:
    orphan = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    begin = time.monotonic()
    with nothing_left() as left:
        subprocess.run([sys.executable, "-c", orphan], check=True, timeout=60)
    assert left and all("python" in name for name in left)
    assert time.monotonic() - begin < 60
    names = [process.cmdline() for process in psutil.Process().children(recursive=True) if process.is_running()]
    assert not any("time.sleep(600)" in " ".join(words) for words in names)
