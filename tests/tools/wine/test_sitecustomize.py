"""The repairs of Wine's sockets, as far as they go without it."""

from __future__ import annotations

import socket

import pytest

from tools.wine import sitecustomize


@pytest.fixture
def unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """This host is called here-and-now, and nobody knows any name."""

    def refuse(name: str) -> str:
        raise socket.gaierror(11001, f"getaddrinfo failed: {name}")

    monkeypatch.setattr(socket, "gethostbyname", refuse)
    monkeypatch.setattr(socket, "gethostname", lambda: "here-and-now")


def test_nothing_changes_outside_of_wine() -> None:
    assert socket.gethostbyname.__module__ == "_socket"


@pytest.mark.usefixtures("unknown_host")
def test_this_host_is_found_under_its_own_name() -> None:
    sitecustomize.resolve_own_name()
    assert socket.gethostbyname(socket.gethostname()) == "127.0.0.1"
    assert socket.gethostbyname("HERE-and-now") == "127.0.0.1"


@pytest.mark.usefixtures("unknown_host")
def test_other_unknown_hosts_stay_unknown() -> None:
    sitecustomize.resolve_own_name()
    with pytest.raises(socket.gaierror, match="getaddrinfo failed: elsewhere"):
        socket.gethostbyname("elsewhere")


def test_a_host_that_knows_itself_keeps_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostbyname", lambda name: "192.0.2.7")
    sitecustomize.resolve_own_name()
    assert socket.gethostbyname(socket.gethostname()) == "192.0.2.7"
