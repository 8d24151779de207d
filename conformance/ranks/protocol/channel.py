"""Messages between the harness and the processes that it starts, over loopback sockets.

Frames are a length and a pickle. The standard library's `multiprocessing.connection` has no deadline on accept,
handshake or receive, so that one stray connection or one half-sent message would stall the run; here the harness
reads only what has arrived and puts frames together as they come. Nothing is unpickled before the other end has
shown its secret.
"""

from __future__ import annotations

import contextlib
import pickle
import secrets
import socket
import struct
from typing import Any

LOOPBACK = "127.0.0.1"

_LENGTH = struct.Struct("!Q")
_SECRET_BYTES = 32
_CHUNK = 1 << 20
_CONNECT_TIMEOUT = 10.0


def new_secret() -> str:
    """A secret that a process shows on connecting, as 32 ASCII characters."""
    return secrets.token_hex(_SECRET_BYTES // 2)


class Channel:
    """One end of a connection that carries pickled messages."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(True)
        self._socket = connection
        self._arrived = bytearray()

    def fileno(self) -> int:
        """The socket, for `selectors`."""
        return self._socket.fileno()

    def send(self, message: object, timeout: float | None = None) -> None:
        """Send one message, within `timeout` seconds if given.

        Raises:
            OSError: the other end is gone, or (TimeoutError) does not read.
        """
        body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        self._socket.settimeout(timeout)
        self._socket.sendall(_LENGTH.pack(len(body)))
        self._socket.sendall(body)

    def receive(self) -> Any:
        """Wait for one message.

        Raises:
            EOFError: the other end is gone.
        """
        while True:
            if message := self._take():
                return message[0]
            self.read()

    def read(self) -> None:
        """Read what has arrived; waits only where nothing has.

        Raises:
            EOFError: the other end is gone.
        """
        self._socket.settimeout(None)
        try:
            chunk = self._socket.recv(_CHUNK)
        except OSError as error:
            raise EOFError(str(error)) from None
        if not chunk:
            raise EOFError("connection closed")
        self._arrived += chunk

    def messages(self) -> list[Any]:
        """The complete messages that `read` has gathered."""
        found = []
        while message := self._take():
            found.append(message[0])
        return found

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _take(self) -> tuple[Any] | None:
        if len(self._arrived) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._arrived)
        end = _LENGTH.size + length
        if len(self._arrived) < end:
            return None
        with memoryview(self._arrived) as view, view[_LENGTH.size : end] as body:
            message = pickle.loads(body)
        del self._arrived[:end]
        return (message,)


def connect(port: int, secret: str) -> Channel:
    """Connect back to the harness.

    Raises:
        OSError: nobody listens there.
    """
    connection = socket.create_connection((LOOPBACK, port), timeout=_CONNECT_TIMEOUT)
    connection.sendall(secret.encode("ascii"))
    return Channel(connection)


class Listener:
    """Where processes connect back to: a port of this host, open to those who know a secret."""

    def __init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0), backlog=128)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]

    def fileno(self) -> int:
        """The listening socket, for `selectors`."""
        return self._listener.fileno()

    def accept(self) -> Unauthenticated | None:
        """The next one who has connected, if any."""
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return None
        return Unauthenticated(connection)

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()


class Unauthenticated:
    """A connection that has not yet shown a secret."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._shown = b""

    def fileno(self) -> int:
        """The socket, for `selectors`."""
        return self._socket.fileno()

    def secret(self) -> str | None:
        """What it has shown; None while incomplete.

        Raises:
            EOFError: it left.
        """
        try:
            chunk = self._socket.recv(_SECRET_BYTES - len(self._shown))
        except BlockingIOError:
            return None
        except OSError as error:
            raise EOFError(str(error)) from None
        if not chunk:
            raise EOFError("connection closed")
        self._shown += chunk
        return self._shown.decode("ascii", "replace") if len(self._shown) == _SECRET_BYTES else None

    def admit(self) -> Channel:
        """Talk to it from now on."""
        return Channel(self._socket)

    def close(self) -> None:
        """Turn it away."""
        with contextlib.suppress(OSError):
            self._socket.close()
