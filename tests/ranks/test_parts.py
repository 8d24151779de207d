"""The parts that ranks are started and watched with, each by itself."""

from __future__ import annotations

import importlib
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from conformance.ranks.inside import processor
from conformance.ranks.inside.rendezvous import await_open
from conformance.ranks.pool import ports, variables
from conformance.ranks.pool.excerpt import excerpt
from conformance.ranks.pool.hub import Hub, Peer
from conformance.ranks.protocol import channel
from conformance.ranks.protocol.plain import not_plain


def test_a_reserved_port_is_given_to_no_one_else() -> None:
    reserved = ports.reserve()
    try:
        given = set()
        held = []
        for _ in range(200):
            other = socket.create_server(("127.0.0.1", 0))
            held.append(other)
            given.add(other.getsockname()[1])
        for each in held:
            each.close()
        assert reserved.number not in given
        with socket.socket() as one, pytest.raises(OSError, match=r".*"):
            if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
                raise OSError("Windows's reservation is a ticket: other harnesses respect it")
            one.bind(("127.0.0.1", reserved.number))
        others = [ports.reserve() for _ in range(20)]
        assert len({other.number for other in others} | {reserved.number}) == 21
        for other in others:
            other.release()
    finally:
        reserved.release()


def test_torchs_store_can_be_hosted_on_a_reserved_port() -> None:
    distributed = pytest.importorskip("torch.distributed")
    reserved = ports.reserve()
    try:
        for _ in range(2):
            store = distributed.TCPStore("127.0.0.1", reserved.number, 1, True, use_libuv=False)
            store.set("key", "value")
            assert store.get("key") == b"value"
            del store
    finally:
        reserved.release()


def test_waiting_for_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    reserved = ports.reserve()
    begin = time.monotonic()
    assert not await_open("127.0.0.1", reserved.number, 0.2)
    assert time.monotonic() - begin < 2.0
    reserved.release()
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert await_open("127.0.0.1", server.getsockname()[1], 5.0)


def test_variables_are_set_and_unset() -> None:
    assert variables.overlaid({"A": "1", "B": "2"}, {"A": None, "C": "3", "B": "4"}) == {"B": "4", "C": "3"}
    assert variables.needs_fresh_interpreter({"DS_ACCELERATOR": "cpu"})
    assert variables.needs_fresh_interpreter({"CUDA_VISIBLE_DEVICES": None})
    assert not variables.needs_fresh_interpreter({"LOCAL_RANK": None, "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "1"})


class Text(str):
    """Not plain: unpickling it needs this module."""


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": [1, 2.0, None, True, b"", ("x", {})], "b": numpy.zeros(2)}, None),
        ({"a": [1, {2}]}, "the result['a'][1] is a builtins.set; expected None, bool"),
        ({"a": {Text("b"): 1}}, "key 'b' of the result['a'] is a"),
        (numpy.float64(1.0), "numpy scalar (numpy.float64); return `.item()` of it"),
        (numpy.array([object()]), "numpy array of dtype object"),
    ],
)
def test_plain_data(value: Any, reason: str | None) -> None:
    found = not_plain(value)
    if reason is None:
        assert found is None
    else:
        assert found is not None
        assert reason in found


def test_excerpts(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"a" * 10 + b"b" * 100 + b"c" * 10)
    assert excerpt(file, 10, 10) == "a" * 10 + "\n… 100 bytes left out …\n" + "c" * 10
    assert excerpt(file, 0, 10) == "c" * 10
    assert excerpt(file, 60, 60) == "a" * 10 + "b" * 100 + "c" * 10
    assert excerpt(tmp_path / "none") == ""


@pytest.fixture
def hub() -> Iterator[Hub]:
    opened = Hub()
    yield opened
    opened.close()


def heard_by(hub: Hub) -> tuple[list[Any], Peer, int, str]:
    heard: list[Any] = []
    peer = Peer(channel.new_secret(), heard.append)
    hub.expect(peer)
    return heard, peer, hub.listener.port, peer.secret


def test_messages_arrive_whole_and_in_order(hub: Hub) -> None:
    heard, peer, port, secret = heard_by(hub)
    other = channel.connect(port, secret)
    for number in range(100):
        other.send((number, "x" * number))
    assert hub.wait(lambda: len(heard) == 100, 5.0)
    assert heard == [(number, "x" * number) for number in range(100)]
    assert peer.send("back")
    assert other.receive() == "back"
    other.close()
    assert hub.wait(lambda: peer.lost, 5.0)
    assert not peer.send("too late")


def test_unauthenticated_neither_get_in_nor_hold_anything_up(hub: Hub) -> None:
    heard, _, port, secret = heard_by(hub)
    silent = socket.create_connection(("127.0.0.1", port))
    wrong = channel.connect(port, channel.new_secret())
    short = socket.create_connection(("127.0.0.1", port))
    short.sendall(secret[:5].encode())
    short.close()
    wrong.send("never heard")
    right = channel.connect(port, secret)
    right.send("heard")
    assert hub.wait(lambda: heard == ["heard"], 5.0)
    second = channel.connect(port, secret)
    with pytest.raises(EOFError):
        hub.wait(lambda: False, 0.2)
        second.receive()
    for each in (silent, wrong, right, second):
        each.close()


def test_one_who_sends_garbage_is_dropped(hub: Hub) -> None:
    heard, peer, port, secret = heard_by(hub)
    other = socket.create_connection(("127.0.0.1", port))
    other.sendall(secret.encode() + (4).to_bytes(8, "big") + b"junk")
    assert hub.wait(lambda: peer.lost, 5.0)
    assert heard == []
    other.close()


def test_half_a_message_holds_nothing_up(hub: Hub) -> None:
    heard, _, port, secret = heard_by(hub)
    other = socket.create_connection(("127.0.0.1", port))
    other.sendall(secret.encode() + (100).to_bytes(8, "big") + b"half")
    begin = time.monotonic()
    assert not hub.wait(lambda: bool(heard), 0.3)
    assert time.monotonic() - begin < 2.0
    other.close()


def test_the_processor_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask() -> str:
        asked.append("what processor is this?")
        return '{"vendor_id_raw": "a vendor"}'

    cpuinfo = importlib.import_module("cpuinfo.cpuinfo")
    monkeypatch.setattr(cpuinfo, "get_cpu_info_json", ask)
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    processor.remember()
    processor.ask_ahead()
    assert not asked  # no op would want to know
    (tmp_path / "cpu_adam").mkdir()
    (tmp_path / "cpu_adam" / "cpu_adam.so").touch()
    processor.ask_ahead()
    processor.remember()
    assert [cpuinfo.get_cpu_info()["vendor_id_raw"] for _ in range(2)] == ["a vendor"] * 2
    assert len(asked) == 1


GATHER = """
import hashlib, os
from pathlib import Path
from conformance.ranks.platform import posix

def huge():
    told = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return int(told["AnonHugePages"].split()[0])

data = os.urandom(16 << 20)
before = hashlib.sha256(data).digest(), huge()
posix.gather_memory()
assert hashlib.sha256(data).digest() == before[0]
print(huge() - before[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")
def test_memory_is_gathered_in_huge_pages() -> None:
    told = subprocess.run([sys.executable, "-c", GATHER], capture_output=True, check=True, encoding="utf-8")
    major, minor = (int(part) for part in platform.release().split(".")[:2])
    if (major, minor) >= (6, 1) and Path("/sys/kernel/mm/transparent_hugepage").is_dir():
        assert int(told.stdout) >= 8 << 10, "KiB in huge pages, of 16 MiB"
    else:
        assert int(told.stdout) == 0
