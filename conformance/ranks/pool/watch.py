"""Watching the ranks of a job until each has reported, died or been stopped."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.ranks.outcome import RankReport, RankStatus
from conformance.ranks.pool.excerpt import excerpt
from conformance.ranks.pool.hub import Hub, Starter
from conformance.ranks.pool.worker_group import Worker
from conformance.ranks.protocol.messages import Raised, Returned

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


def watch(hub: Hub, workers: Sequence[Worker], deadline: float, starter: Starter) -> list[RankReport]:
    """Wait for the workers, which have their orders, in rank order.

    Those that returned are left running where all did and their order said `again`; all others have ended afterwards.
    """
    begin = time.monotonic()
    status: dict[Worker, RankStatus] = {}
    first_fault: float | None = None
    first_return: float | None = None
    lingering = True
    while True:
        now = time.monotonic()
        for worker in workers:
            if worker in status:
                continue
            if worker.report is not None:
                status[worker] = _status_of(worker.report)
            elif worker.gone:
                # mpiexec kills the others when one of its ranks has ended.
                victim = first_fault is not None and worker.group.under_mpiexec
                status[worker] = RankStatus.STOPPED if victim else RankStatus.DIED
            else:
                continue
            if status[worker] is RankStatus.RETURNED:
                first_return = first_return or now
            else:
                first_fault = first_fault or now
        running = [worker for worker in workers if worker not in status]
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
            for worker in workers:
                if status.get(worker) is not RankStatus.RETURNED:
                    continue
                # What it waits for shall see that no one is there. An exit does that best, but mpiexec would end the
                # others for it; on Windows nothing less does it, since gloo's connections there last until then.
                if worker.group.under_mpiexec and sys.platform != "win32":
                    worker.release()
                else:
                    worker.leave()
        until = begin + deadline
        if first_fault is not None:
            until = min(until, first_fault + GRACE)
        if lingering and first_return is not None:
            until = min(until, first_return + LINGER)
        hub.poll(until - now)
    _end(hub, workers, status, starter)
    return _reports(workers, status)


def _status_of(report: Returned | Raised) -> RankStatus:
    if isinstance(report, Returned):
        return RankStatus.RETURNED
    return RankStatus.RAISED if report.reportable else RankStatus.UNREPORTABLE


def _await_stacks(hub: Hub, running: Sequence[Worker]) -> None:
    """Give ranks at their deadline the time to write their stacks; one that is stopped writes none."""
    limit = time.monotonic() + _DUMP
    files = [worker.order.stacks for worker in running if worker.order is not None]
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


def _end(hub: Hub, workers: Sequence[Worker], status: dict[Worker, RankStatus], starter: Starter) -> None:
    """End every worker but those that shall serve again, which get ready for that."""
    well = all(state is RankStatus.RETURNED for state in status.values())
    ending = [m for m in workers if not (well and m.order is not None and m.order.again)]
    for worker in workers:
        if worker not in ending:
            worker.release()
    for worker in ending:
        worker.leave(together=well)
    doomed = {worker.process for worker in ending if status[worker] in _STOPPED and not worker.gone}
    if doomed:
        starter.stop(doomed, 0.0)
    leaving = {worker.process for worker in ending} - doomed
    if leaving:
        hung_up = any(status[worker] is RankStatus.DIED and not worker.group.under_mpiexec for worker in ending)
        starter.stop(leaving, _HUNG_UP if hung_up else _LEAVING)
    for worker in ending:
        hub.drop(worker)


def _reports(workers: Sequence[Worker], status: dict[Worker, RankStatus]) -> list[RankReport]:
    codes = {
        worker: code
        for group in {worker.group for worker in workers}
        for worker, code in zip(group.workers, group.exit_codes(), strict=True)
    }
    return [_report(rank, worker, status[worker], codes[worker]) for rank, worker in enumerate(workers)]


def _report(rank: int, worker: Worker, status: RankStatus, exit_code: int | None) -> RankReport:
    report, order, process = worker.report, worker.order, worker.process
    log = excerpt(order.log) if order is not None else ""
    if status is RankStatus.DIED:
        if order is None or process.log != order.log:
            log = "\n".join(filter(None, (log, excerpt(process.log))))
        if process.killed and not worker.group.under_mpiexec:
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
