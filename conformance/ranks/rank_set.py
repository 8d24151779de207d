"""The ranks of one job: giving them the job, watching them, and telling how each ended."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.ranks import channel
from conformance.ranks.excerpt import excerpt
from conformance.ranks.hub import HarnessError, Hub, Peer, Process, Starter
from conformance.ranks.messages import Clean, Hello, Leave, Order, Raised, Ready, Returned
from conformance.ranks.outcome import RankError, RankReport, RankStatus

START_TIMEOUT = 180.0
"""Seconds for the ranks of a job to start and import."""
GRACE = 5.0
"""Seconds that ranks get to end by themselves after one of them has died or raised."""
LINGER = 5.0
"""Seconds that a rank whose scenario has returned stays for its peers."""
_DUMP = 1.0
"""Seconds past the deadline for ranks to write their stacks."""
_LEAVING = 3.0
"""Seconds for a rank that has reported to end."""
_HUNG_UP = 1.0
"""Seconds for a rank that has closed its connection to end."""


class Member(Peer):
    """One rank as the harness knows it."""

    def __init__(self, secret: str | None = None) -> None:
        super().__init__(secret or channel.new_secret(), self._hear)
        self.process: Process | None = None
        self.hello: Hello | None = None
        self.ready = False
        self.report: Returned | Raised | None = None
        self.clean: Clean | None = None
        self.order: Order | None = None
        self.jobs = 0

    def _hear(self, message: object) -> None:
        match message:
            case Hello():
                self.hello = message
            case Ready():
                self.ready = True
            case Returned() | Raised():
                self.report = message
            case Clean():
                self.clean = message

    @property
    def gone(self) -> bool:
        """Whether nothing more can come from it."""
        return self.lost or (self.process is not None and self.process.ended and self.channel is None)

    def give(self, order: Order) -> None:
        """Hand it its part of a job."""
        self.report = None
        self.clean = None
        self.order = order
        self.jobs += 1
        self.send(order)

    def leave(self) -> None:
        """Tell it to end."""
        self.send(Leave())


def await_ready(hub: Hub, members: Sequence[Member], timeout: float = START_TIMEOUT) -> None:
    """Wait until every member is ready for its order, or gone.

    Raises:
        HarnessError: one could not be started, or is not ready in time.
    """
    hub.wait(lambda: all(member.ready or member.gone for member in members), timeout)
    for member in members:
        process = member.process
        if process is not None and process.failure:
            raise HarnessError(f"a rank could not be started: {process.failure}")
        if not member.ready and not member.gone:
            words = excerpt(process.log, head=0, tail=2048).strip() if process is not None else ""
            raise HarnessError(f"a rank was not ready within {timeout:.0f} s; its log ends: {words or '(empty)'}")


def watch(hub: Hub, members: Sequence[Member], deadline: float, starter: Starter) -> list[RankReport]:
    """Wait for the members, which have their orders, until all have reported, died or been stopped.

    Those that returned are left running where their order said `again`; all others have ended afterwards.
    """
    begin = time.monotonic()
    status: dict[Member, RankStatus] = {}
    first_fault: float | None = None
    first_return: float | None = None
    lingering = True
    while len(status) < len(members):
        now = time.monotonic()
        for member in members:
            if member in status:
                continue
            if member.report is not None:
                status[member] = _status_of(member.report)
            elif member.gone:
                status[member] = RankStatus.DIED
            else:
                continue
            if status[member] is RankStatus.RETURNED:
                first_return = first_return or now
            else:
                first_fault = first_fault or now
        running = [member for member in members if member not in status]
        if not running:
            break
        if now >= begin + deadline:
            status.update(dict.fromkeys(running, RankStatus.TIMED_OUT))
            _await_stacks(hub, running)
            break
        if first_fault is not None and now >= first_fault + GRACE:
            status.update(dict.fromkeys(running, RankStatus.STOPPED))
            break
        if lingering and first_return is not None and now >= first_return + LINGER:
            lingering = False
            for member in members:
                if status.get(member) is RankStatus.RETURNED:
                    member.leave()
        until = begin + deadline
        if first_fault is not None:
            until = min(until, first_fault + GRACE)
        if lingering and first_return is not None:
            until = min(until, first_return + LINGER)
        hub.poll(until - now)
    _end(hub, members, status, starter)
    return [_report(rank, member, status[member]) for rank, member in enumerate(members)]


def _status_of(report: Returned | Raised) -> RankStatus:
    if isinstance(report, Returned):
        return RankStatus.RETURNED
    return RankStatus.RAISED if report.reportable else RankStatus.UNREPORTABLE


def _await_stacks(hub: Hub, running: Sequence[Member]) -> None:
    """Give ranks at their deadline the time to write their stacks; one that is stopped writes none."""
    limit = time.monotonic() + _DUMP
    files = [member.order.stacks for member in running if member.order is not None]
    before: list[int] = []
    while (left := limit - time.monotonic()) > 0:
        sizes = [_size(file) for file in files]
        if all(sizes) and sizes == before:
            return
        before = sizes
        pause = time.monotonic() + min(left, 0.1)
        hub.wait(lambda pause=pause: time.monotonic() >= pause, min(left, 0.1))  # type: ignore[misc]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _end(hub: Hub, members: Sequence[Member], status: dict[Member, RankStatus], starter: Starter) -> None:
    """End every member but those that shall serve again."""
    well = all(state is RankStatus.RETURNED for state in status.values())
    ending = [m for m in members if not (well and m.order is not None and m.order.again)]
    if not ending:
        return
    for member in ending:
        member.leave()
    running = {RankStatus.TIMED_OUT, RankStatus.STOPPED}
    doomed = {m.process for m in ending if m.process is not None and status[m] in running}
    if doomed:
        starter.stop(doomed, 0.0)
    leaving = {m.process for m in ending if m.process is not None} - doomed
    if leaving:
        hung_up = any(state is RankStatus.DIED for state in status.values())
        starter.stop(leaving, _HUNG_UP if hung_up else _LEAVING)
    for member in ending:
        hub.drop(member)


def _report(rank: int, member: Member, status: RankStatus) -> RankReport:
    report, order = member.report, member.order
    observation = None
    error: RankError | None = None
    if isinstance(report, Returned) and status is RankStatus.RETURNED:
        observation = pickle.loads(report.observation)
    elif isinstance(report, Raised):
        error = report.error
    log = excerpt(order.log) if order is not None else ""
    if status is RankStatus.DIED and member.process is not None and (order is None or member.process.log != order.log):
        log = "\n".join(filter(None, (log, excerpt(member.process.log))))
    exit_code = member.process.exit_code if member.process is not None else None
    if status is RankStatus.DIED and member.process is not None and member.process.killed:
        exit_code = None
        log += "\n(this rank closed its connection to the harness and ran on, so the harness ended it)"
    return RankReport(
        rank=rank,
        status=status,
        observation=observation,
        error=error,
        exit_code=exit_code,
        seconds=report.seconds if report is not None else 0.0,
        log=log,
        stacks=excerpt(order.stacks) if order is not None and status is RankStatus.TIMED_OUT else "",
    )
