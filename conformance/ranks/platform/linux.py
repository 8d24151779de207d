"""Starting and ending processes on Linux, through a agent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

from conformance.ranks.pool.excerpt import excerpt
from conformance.ranks.pool.hub import HarnessError, Hub, Peer, Process
from conformance.ranks.pool.settings import PoolSettings, roots
from conformance.ranks.pool.variables import FORK_SERVER
from conformance.ranks.protocol import channel
from conformance.ranks.protocol.invitation import Invitation
from conformance.ranks.protocol.messages import (
    AgentReady,
    Exited,
    Fork,
    Hello,
    NotStarted,
    Spawn,
    Started,
    Stop,
    Stopped,
)

assert sys.platform == "linux"

_CONNECT_TIMEOUT = 60.0
_STOP_TIMEOUT = 15.0


class LinuxStarter:
    """A agent process and what it has started.

    Args:
        hub: where it connects back to.
        settings: of the pool.
        log: a file for its output.
        preload: modules to import ahead; with any, the agent is a fork server.

    Raises:
        HarnessError: the interpreter cannot be started.
    """

    def __init__(self, hub: Hub, settings: PoolSettings, log: Path, preload: Sequence[str] = ()) -> None:
        self._hub = hub
        self._log = log
        self._processes: dict[int, Process] = {}
        self._leaders: set[int] = set()
        self._ready = False
        self._stopped = False
        self._problem = ""
        self._peer = Peer(channel.new_secret(), self._heard, self._lost)
        hub.expect(self._peer)
        invited = Invitation(hub.listener.port, self._peer.secret, roots(), tuple(preload))
        command = settings.agent_command
        try:
            with log.open("ab") as output:
                self._agent = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**settings.environment, **(FORK_SERVER if preload else {}), **invited.variable()},
                    start_new_session=True,
                )
        except OSError as error:
            hub.drop(self._peer)
            raise HarnessError(f"cannot start {command[0]}: {error}") from None
        hub.look_often(self._look)

    @property
    def alive(self) -> bool:
        """Whether the agent can still be asked for anything."""
        return not self._peer.lost and not self._problem and self._agent.poll() is None

    def wait_ready(self, timeout: float) -> None:
        """Wait for the agent's imports.

        Raises:
            HarnessError: they failed or took too long; the text holds the end of the agent's log.
        """
        self._hub.wait(lambda: self._ready or not self.alive, timeout)
        if self._problem:
            raise HarnessError(self._problem)
        if not self.alive:
            raise HarnessError(f"the process that starts ranks ended: {self._last_words()}")
        if not self._ready:
            words = self._last_words()
            raise HarnessError(f"the process that starts ranks was not ready within {timeout:.0f} s: {words}")

    def fork(self, secret: str, log: Path) -> Process:
        """Fork a rank that connects back with `secret` and will write to `log`."""
        process = self._new(log)
        self._ask(Fork(process.key, Invitation(self._hub.listener.port, secret)), process)
        return process

    def spawn(self, command: Sequence[str], environment: dict[str, str], folder: Path, log: Path) -> Process:
        """Start a program; that it could not be started shows in the process."""
        process = self._new(log)
        self._ask(Spawn(process.key, tuple(command), environment, folder, log), process)
        return process

    def stop(self, processes: Iterable[Process], patience: float) -> None:
        """Wait up to `patience` seconds for these to end, then kill them; nothing that they started is left.

        Raises:
            HarnessError: the agent is gone or does not answer; it is killed then, and ranks with it.
        """
        keys = tuple(process.key for process in processes)
        self._stopped = False
        asked = self._peer.send(Stop(keys, patience))
        done = asked and self._hub.wait(lambda: self._stopped or not self.alive, patience + _STOP_TIMEOUT)
        for key in keys:
            self._processes.pop(key, None)
        if not (done and self._stopped):
            words = self._last_words()
            self.close()
            raise HarnessError(f"the process that starts ranks is lost: {words}")

    def count(self, process: Process) -> int:
        """Always 0: ranks count their own children, and orphans end with the next `stop`."""
        return 0

    def close(self) -> None:
        """End the agent and all that it started."""
        if self._peer.channel is None:
            self._agent.kill()  # it never connected, and so has started nothing, or is dead already
        self._hub.look_no_more(self._look)
        self._hub.drop(self._peer)  # its sign to kill everything and end
        try:
            self._agent.wait(5.0)
        except subprocess.TimeoutExpired:
            self._agent.kill()
            self._agent.wait()
        if self._agent.returncode != 0:
            end_sessions(self._leaders)
        self._lost()
        self._processes.clear()

    def _new(self, log: Path) -> Process:
        process = Process(self._hub.next_key(), log)
        self._processes[process.key] = process
        return process

    def _ask(self, message: Fork | Spawn, process: Process) -> None:
        self._hub.wait(lambda: self._peer.channel is not None or not self.alive, _CONNECT_TIMEOUT)
        if not self._peer.send(message):
            process.failure = f"the process that starts ranks is lost: {self._last_words()}"

    def _look(self) -> None:
        """Until the agent has connected, no connection tells that it has ended."""
        if self._peer.channel is not None or not self.alive:
            self._hub.look_no_more(self._look)

    def _heard(self, message: object) -> None:
        match message:
            case AgentReady(problem=""):
                self._ready = True
            case AgentReady(problem=problem):
                self._problem = problem
            case Started(pid=pid):
                self._leaders.add(pid)
            case Exited(key=key, exit_code=code, killed=killed):
                if (process := self._processes.get(key)) is not None:
                    process.exit_code, process.killed = code, killed
            case NotStarted(key=key, reason=reason):
                if (process := self._processes.get(key)) is not None:
                    process.failure = reason
            case Stopped():
                self._stopped = True
            case Hello():
                pass

    def _lost(self) -> None:
        for process in self._processes.values():
            if not process.ended:
                process.failure = f"the process that starts ranks is lost: {self._last_words()}"

    def _last_words(self) -> str:
        code = self._agent.poll()
        state = "still running" if code is None else f"exit code {code}"
        return f"{state}; its log ({self._log}) ends: {excerpt(self._log, head=0, tail=2048).strip() or '(empty)'}"


def end_sessions(leaders: Iterable[int]) -> None:
    """Kill every process in the sessions that `leaders` lead."""
    sessions = frozenset(leaders)
    limit = time.monotonic() + 5.0
    while time.monotonic() < limit:
        doomed = []
        for pid in psutil.pids():
            with contextlib.suppress(OSError):
                if os.getsid(pid) in sessions:
                    doomed.append(pid)
        for pid in doomed:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not doomed:
            return
        time.sleep(0.05)
