"""The harness's side of all its ranks: one loop over every connection, with no call that can block."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import selectors
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from conformance.ranks.protocol import channel

_ORDER_TIMEOUT = 10.0
_LOOK = 0.1


class HarnessError(Exception):
    """The harness itself could not do its part; says nothing about the thing under test."""


@dataclasses.dataclass(eq=False)
class Process:
    """A process as the harness knows it: a rank's own, or the mpiexec above several ranks."""

    key: int
    log: Path
    """What it writes until a rank redirects its output."""
    exit_code: int | None = None
    killed: bool = False
    """The harness ended it."""
    failure: str = ""
    """Why it was not started."""

    @property
    def ended(self) -> bool:
        """Whether it has exited, or never started."""
        return self.exit_code is not None or bool(self.failure)


@dataclasses.dataclass(eq=False)
class Peer:
    """One who connects back: `channel` is set from then until it is gone."""

    secret: str
    heard: Callable[[Any], None]
    """Called with each message."""
    on_lost: Callable[[], None] = lambda: None
    """Called when the other end has ended the connection."""
    channel: channel.Channel | None = None
    lost: bool = False
    """It was connected, and the connection has ended."""

    def send(self, message: object) -> bool:
        """Send, and say whether that went well."""
        if self.channel is None:
            return False
        try:
            self.channel.send(message, _ORDER_TIMEOUT)
        except OSError:
            return False
        return True


class Starter(Protocol):
    """How processes are started and ended on one operating system."""

    @property
    def alive(self) -> bool:
        """Whether it can still be asked for anything."""
        ...

    def spawn(self, command: Sequence[str], environment: dict[str, str], folder: Path, log: Path) -> Process:
        """Start a program; that it could not be started shows in the process."""
        ...

    def stop(self, processes: Iterable[Process], patience: float) -> None:
        """Wait up to `patience` seconds for these to end, then kill them; nothing that they started is left.

        Raises:
            HarnessError: it cannot be done.
        """
        ...

    def count(self, process: Process) -> int:
        """How many processes have come from one that runs, itself included; 0 where nothing of a clean rank is left."""
        ...

    def close(self) -> None:
        """Stop everything."""
        ...


class Hub:
    """Listens for processes that connect back, and gathers what they say."""

    def __init__(self) -> None:
        self.listener = channel.Listener()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.listener, selectors.EVENT_READ, self._answer)
        self._expected: dict[str, Callable[[], Peer]] = {}
        self._peers: list[Peer] = []
        self._keys = itertools.count(1)
        self._looks: list[Callable[[], None]] = []

    def next_key(self) -> int:
        """A number for a process."""
        return next(self._keys)

    def expect(self, peer: Peer) -> None:
        """Admit `peer` when it comes."""
        self._expected[peer.secret] = lambda: peer

    def expect_several(self, secret: str, arrived: Callable[[], Peer]) -> None:
        """Admit any number who show one secret, each as the new peer that `arrived` makes."""
        self._expected[secret] = arrived

    def forget(self, secret: str) -> None:
        """Admit no one with this secret any more."""
        self._expected.pop(secret, None)

    def poll(self, timeout: float) -> bool:
        """Wait until something happens, at most `timeout` seconds, and take it in; whether anything did."""
        pause = min(timeout, _LOOK) if self._looks else timeout
        events = self._selector.select(max(pause, 0.0))
        for key, _ in events:
            key.data(key.fileobj)
        for look in list(self._looks):
            look()
        return bool(events)

    def catch_up(self) -> None:
        """Take in what has happened while nobody waited."""
        while self.poll(0.0):
            pass

    def look_often(self, look: Callable[[], None]) -> None:
        """Call `look` with every poll, ten times a second at least while one waits: for what no connection tells."""
        self._looks.append(look)

    def look_no_more(self, look: Callable[[], None]) -> None:
        """Take back `look_often`."""
        if look in self._looks:
            self._looks.remove(look)

    def wait(self, until: Callable[[], bool], timeout: float) -> bool:
        """Take in what happens until `until()` holds; False if it does not within `timeout` seconds."""
        limit = time.monotonic() + timeout
        while not until():
            left = limit - time.monotonic()
            if left <= 0:
                return False
            self.poll(left)
        return True

    def drop(self, peer: Peer) -> None:
        """End the connection to `peer`, if there is one, and admit it no more."""
        self.forget(peer.secret)
        if peer.channel is not None:
            self._selector.unregister(peer.channel)
            peer.channel.close()
            peer.channel = None
            peer.lost = True
            self._peers.remove(peer)

    def close(self) -> None:
        """Close every connection."""
        for peer in list(self._peers):
            self.drop(peer)
        for key in list(self._selector.get_map().values()):
            with contextlib.suppress(Exception):
                key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _answer(self, _listener: object) -> None:
        while (unauthenticated := self.listener.accept()) is not None:
            self._selector.register(unauthenticated, selectors.EVENT_READ, self._hear)

    def _hear(self, unauthenticated: channel.Unauthenticated) -> None:
        try:
            secret = unauthenticated.secret()
        except EOFError:
            secret = ""
        if secret is None:
            return
        self._selector.unregister(unauthenticated)
        admit = self._expected.get(secret)
        if admit is None:
            unauthenticated.close()
            return
        peer = admit()
        if peer.channel is not None:
            unauthenticated.close()
            return
        peer.channel = unauthenticated.admit()
        self._peers.append(peer)
        self._selector.register(peer.channel, selectors.EVENT_READ, lambda _channel: self._listen(peer))

    def _listen(self, peer: Peer) -> None:
        if peer.channel is None:  # dropped since the selector looked
            return
        try:
            peer.channel.read()
            messages = peer.channel.messages()
        except Exception:  # closed; or what came is no message, as the process has written into its own connection
            self.drop(peer)
            peer.on_lost()
            return
        for message in messages:
            peer.heard(message)
