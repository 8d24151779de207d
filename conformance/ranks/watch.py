"""Watching the ranks of a job until each has reported, died or been stopped."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.ranks.crew import Member
from conformance.ranks.excerpt import excerpt
from conformance.ranks.hub import Hub, Starter
from conformance.ranks.messages import Raised, Returned
from conformance.ranks.outcome import RankReport, RankStatus

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

_STOPPED = frozenset({RankStatus.TIMED_OUT, RankStatus.STOPPED})


def watch(hub: Hub, members: Sequence[Member], deadline: float, starter: Starter) -> list[RankReport]:
    """Wait for the members, which have their orders, in rank order.

    Those that returned are left running where all did and their order said `again`; all others have ended afterwards.
    """
    begin = time.monotonic()
    status: dict[Member, RankStatus] = {}
    first_fault: float | None = None
    first_return: float | None = None
    lingering = True
    while True:
        now = time.monotonic()
        for member in members:
            if member in status:
                continue
            if member.report is not None:
                status[member] = _status_of(member.report)
            elif member.gone:
                # mpiexec kills the others when one of its ranks has ended.
                victim = first_fault is not None and member.crew.under_mpiexec
                status[member] = RankStatus.STOPPED if victim else RankStatus.DIED
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
                if status.get(member) is not RankStatus.RETURNED:
                    continue
                # What it waits for shall see that no one is there. An exit does that best, but mpiexec would end the
                # others for it; on Windows nothing less does it, since gloo's connections there last until then.
                if member.crew.under_mpiexec and sys.platform != "win32":
                    member.release()
                else:
                    member.leave()
        until = begin + deadline
        if first_fault is not None:
            until = min(until, first_fault + GRACE)
        if lingering and first_return is not None:
            until = min(until, first_return + LINGER)
        hub.poll(until - now)
    _end(hub, members, status, starter)
    return _reports(members, status)


def _status_of(report: Returned | Raised) -> RankStatus:
    if isinstance(report, Returned):
        return RankStatus.RETURNED
    return RankStatus.RAISED if report.reportable else RankStatus.UNREPORTABLE


def _await_stacks(hub: Hub, running: Sequence[Member]) -> None:
    """Give ranks at their deadline the time to write their stacks; one that is stopped writes none."""
    limit = time.monotonic() + _DUMP
    files = [member.order.stacks for member in running if member.order is not None]
    before: list[int] = []
    while time.monotonic() < limit:
        sizes = [_size(file) for file in files]
        if all(sizes) and sizes == before:
            return
        before = sizes
        hub.wait(lambda: False, 0.1)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _end(hub: Hub, members: Sequence[Member], status: dict[Member, RankStatus], starter: Starter) -> None:
    """End every member but those that shall serve again, which get ready for that."""
    well = all(state is RankStatus.RETURNED for state in status.values())
    ending = [m for m in members if not (well and m.order is not None and m.order.again)]
    for member in members:
        if member not in ending:
            member.release()
    for member in ending:
        member.leave(together=well)
    doomed = {member.process for member in ending if status[member] in _STOPPED and not member.gone}
    if doomed:
        starter.stop(doomed, 0.0)
    leaving = {member.process for member in ending} - doomed
    if leaving:
        hung_up = any(status[member] is RankStatus.DIED and not member.crew.under_mpiexec for member in ending)
        starter.stop(leaving, _HUNG_UP if hung_up else _LEAVING)
    for member in ending:
        hub.drop(member)


def _reports(members: Sequence[Member], status: dict[Member, RankStatus]) -> list[RankReport]:
    codes = {
        member: code
        for crew in {member.crew for member in members}
        for member, code in zip(crew.members, crew.exit_codes(), strict=True)
    }
    return [_report(rank, member, status[member], codes[member]) for rank, member in enumerate(members)]


def _report(rank: int, member: Member, status: RankStatus, exit_code: int | None) -> RankReport:
    report, order, process = member.report, member.order, member.process
    log = excerpt(order.log) if order is not None else ""
    if status is RankStatus.DIED:
        if order is None or process.log != order.log:
            log = "\n".join(filter(None, (log, excerpt(process.log))))
        if process.killed and not member.crew.under_mpiexec:
            exit_code = None
            log += "\n(this rank closed its connection to the harness and ran on, so the harness ended it)"
    return RankReport(
        rank=rank,
        status=status,
        observation=pickle.loads(report.observation) if isinstance(report, Returned) else None,
        error=report.error if isinstance(report, Raised) else None,
        exit_code=exit_code,
        seconds=report.seconds if report is not None else 0.0,
        log=log,
        stacks=excerpt(order.stacks) if order is not None and status is RankStatus.TIMED_OUT else "",
    )
