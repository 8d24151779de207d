"""The process that starts ranks on Linux, reaps them and leaves none behind.

With modules to import ahead it is the fork server: it imports them once, stays on one thread, touches neither CUDA nor
MPI, and forks ranks from itself. It starts fresh programs too (cold ranks, mpiexec); a agent without modules does only
that. Every orphan among its descendants becomes its child, so that killing its children until none is left kills whole
trees, sessions of their own included. It ends, and with it everything that it started, when the harness does.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence

from conformance.ranks.inside import restore, worker
from conformance.ranks.platform import posix
from conformance.ranks.protocol import channel, invitation
from conformance.ranks.protocol.messages import (
    AgentReady,
    Exited,
    Fork,
    Hello,
    NotStarted,
    Ready,
    Spawn,
    Started,
    Stop,
    Stopped,
)

assert sys.platform == "linux"

_MANY_FORKS = 16
"""After so many it pays to make the next ones cheap."""


class Agent:
    """Serves one harness over `connection`."""

    def __init__(self, connection: channel.Channel, forks: bool) -> None:
        self._connection = connection
        self._forks = forks
        self._forked = 0
        self._gathered = False
        self._pids: dict[int, int] = {}
        """Process id to key, of what was started and not yet reaped."""
        self._waking, wake = socket.socketpair()
        self._waking.setblocking(False)
        wake.setblocking(False)
        self._wake = wake
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Do as the harness says until it is gone."""
        try:
            while True:
                readable = self._readable()
                if self._waking in readable:
                    self._drain_wakes()
                    self._reap()
                if self._connection in readable:
                    self._connection.read()
                    for message in self._connection.messages():
                        self._obey(message)
        except (EOFError, OSError):
            pass
        finally:
            self._kill(keep=())

    def _readable(self) -> list[channel.Channel | socket.socket]:
        awaited: list[channel.Channel | socket.socket] = [self._connection, self._waking]
        return select.select(awaited, [], [])[0]

    def _obey(self, message: object) -> None:
        match message:
            case Fork():
                self._fork(message)
            case Spawn():
                self._spawn(message)
            case Stop():
                self._stop(message)
            case _:
                raise ValueError(f"a agent was sent {message!r}")

    def _fork(self, message: Fork) -> None:
        if not self._forks:
            self._connection.send(NotStarted(message.key, "this agent has nothing imported to fork from"))
            return
        if (count := posix.threads()) != 1:
            self._connection.send(NotStarted(message.key, f"the fork server has {count} threads; expected 1"))
            return
        agent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._connection.send(NotStarted(message.key, f"fork: {error}"))
            return
        if pid == 0:
            try:
                self._become_rank(message, agent)
            finally:
                os._exit(1)
        self._forked += 1
        self._started(pid, message.key)

    def _become_rank(self, message: Fork, agent: int) -> None:
        posix.die_with(agent)
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self._connection, self._waking, self._wake):
            end.close()
        restore.reseed()
        try:
            connection = message.invitation.connect()
            connection.send(Hello(os.getpid()))
            connection.send(Ready())
        except OSError:
            worker.leave(1)
        worker.serve(connection)

    def _spawn(self, message: Spawn) -> None:
        try:
            with message.log.open("ab") as log:
                process = subprocess.Popen(
                    message.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=message.environment,
                    cwd=message.folder,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            self._connection.send(NotStarted(message.key, f"{message.command[0]}: {error}"))
            return
        self._started(process.pid, message.key)
        process.returncode = 0  # it is reaped here, not by Popen

    def _started(self, pid: int, key: int) -> None:
        self._pids[pid] = key
        self._connection.send(Started(key, pid))

    def _stop(self, message: Stop) -> None:
        limit = time.monotonic() + message.patience
        while not set(message.keys).isdisjoint(self._pids.values()) and (left := limit - time.monotonic()) > 0:
            select.select([self._waking], [], [], left)
            self._drain_wakes()
            self._reap()
        self._kill(keep=[pid for pid, key in self._pids.items() if key not in message.keys])
        self._connection.send(Stopped())
        if self._forked >= _MANY_FORKS and not self._gathered:
            self._gathered = True
            posix.gather_memory()

    def _kill(self, keep: Iterable[int]) -> None:
        """Kill children, and those who become children by that, until only `keep` are left."""
        kept = frozenset(keep)
        while doomed := [pid for pid in posix.children() if pid not in kept]:
            for pid in doomed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in doomed:
                with contextlib.suppress(ChildProcessError):
                    self._gone(*os.waitpid(pid, 0), killed=True)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._gone(pid, status)

    def _gone(self, pid: int, status: int, killed: bool = False) -> None:
        key = self._pids.pop(pid, None)
        if key is not None:
            with contextlib.suppress(OSError):
                self._connection.send(Exited(key, os.waitstatus_to_exitcode(status), killed))

    def _drain_wakes(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._waking.recv(4096):
                pass


def main() -> None:
    """The life of a agent."""
    posix.adopt_orphans()
    posix.heed_signals()
    invited = invitation.accept()
    worker.speak_utf8()
    connection = invited.connect()
    connection.send(Hello(os.getpid()))
    problem = _import_ahead(invited.preload) if invited.preload else ""
    connection.send(AgentReady(problem))
    if not problem:
        Agent(connection, forks=bool(invited.preload)).serve()


def _import_ahead(modules: Sequence[str]) -> str:
    """Become a fork server; says why that cannot be, or nothing."""
    from conformance.ranks.inside import processor, warm

    try:
        warm.up(modules)
        processor.ask_ahead()
    except BaseException as error:
        told = worker.describe(error)
        return f"importing {', '.join(modules)} ahead raised {told.type}: {told.message}\n{told.traceback}"
    if (count := posix.threads()) != 1:
        return f"importing {', '.join(modules)} started threads: {count} run, expected 1; ranks cannot be forked"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return f"importing {', '.join(modules)} initialised CUDA, which forked ranks could not use"
    gc.collect()
    gc.freeze()  # a collection in a rank would touch, and so copy, every page that holds an object
    return ""
