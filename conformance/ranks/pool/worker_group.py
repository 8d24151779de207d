"""Processes that can be ranks, as the harness knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from conformance.ranks.pool.excerpt import excerpt
from conformance.ranks.pool.hub import HarnessError, Hub, Peer, Process
from conformance.ranks.protocol import channel
from conformance.ranks.protocol.messages import Clean, Hello, Leave, Order, Raised, Ready, Returned, Tidy

Deaths = Callable[[str], Mapping[int, int]]
"""From what mpiexec wrote to the exit codes, by rank, of those that died by themselves."""
_OUTPUT = 64 << 10
START_TIMEOUT = 300.0
"""Seconds for processes to start and import."""


class Worker(Peer):
    """One process that can be a rank."""

    def __init__(self, group: WorkerGroup) -> None:
        super().__init__(group.secret, self._hear)
        self.group = group
        self.hello: Hello | None = None
        self.ready = False
        """It waits for an order."""
        self.order: Order | None = None
        """What it was last asked to do."""
        self.report: Returned | Raised | None = None
        """What came of it."""
        self.unclean = ""
        """What it could not clean up after its last job."""
        self._released = False

    @property
    def process(self) -> Process:
        """The process that the harness has started for it: its own, or the mpiexec above it."""
        return self.group.process

    @property
    def gone(self) -> bool:
        """Whether nothing more can come from it."""
        return self.lost or (self.process.ended and self.channel is None)

    def give(self, order: Order) -> None:
        """Hand it its part of a job."""
        self.ready = False
        self.report = None
        self._released = False
        self.order = order
        self.send(order)

    def release(self) -> None:
        """Tell it, which has returned, that its peers need it no longer: to get ready for another order, or to end."""
        if self.order is None or not self.order.again:
            self.leave()
        elif not self._released:
            self._released = True
            self.send(Tidy())

    def leave(self, together: bool = False) -> None:
        """Tell it to end, and whether all its peers do so too."""
        self.send(Leave(together))

    def _hear(self, message: object) -> None:
        match message:
            case Hello():
                self.hello = message
            case Ready():
                self.ready = True
            case Returned() | Raised():
                self.report = message
            case Clean(left=left):
                self.unclean = left
                self.ready = not left


class WorkerGroup:
    """Processes that were started together: one with launcher `env`, a whole world with mpiexec.

    Args:
        hub: where they connect back to.
        size: how many there will be.
        deaths: with mpiexec, reads from its output the exit codes of ranks that died by themselves; None where each
            process is the harness's own.
    """

    def __init__(self, hub: Hub, size: int = 1, deaths: Deaths | None = None) -> None:
        self.size = size
        self.jobs = 0
        """How many it has been given."""
        self.process: Process
        self.population = 0
        """How many processes it counted, where its starter can tell, before its first job."""
        self._hub = hub
        self._deaths = deaths
        self.secret = channel.new_secret()
        self._workers: list[Worker] = []
        if self.under_mpiexec:
            hub.expect_several(self.secret, self._admit)
        else:
            hub.expect(self._admit())

    @property
    def under_mpiexec(self) -> bool:
        """Whether mpiexec has started it, and numbers it."""
        return self._deaths is not None

    @property
    def workers(self) -> list[Worker]:
        """Its processes, in rank order, once all have told their number."""
        if not self.under_mpiexec:
            return self._workers
        return sorted(self._workers, key=lambda worker: -1 if worker.hello is None else worker.hello.rank or 0)

    @property
    def ready(self) -> bool:
        """Whether all wait for an order."""
        return len(self._workers) == self.size and all(worker.ready for worker in self._workers)

    @property
    def broken(self) -> bool:
        """Whether it can never be ready (again)."""
        return self.process.ended or any(worker.gone or worker.unclean for worker in self._workers)

    def drop(self) -> None:
        """Hear no more of it."""
        self._hub.forget(self.secret)
        for worker in self._workers:
            self._hub.drop(worker)

    def exit_codes(self) -> list[int | None]:
        """The exit code of each process, negative for a signal; None where it is not known."""
        if self._deaths is None:
            return [self.process.exit_code]
        if not self.process.ended:
            return [None] * self.size
        rest = 0 if self.process.exit_code == 0 else None
        died = self._deaths(excerpt(self.process.log, head=_OUTPUT, tail=_OUTPUT))
        return [died.get(rank, rest) for rank in range(self.size)]

    def words(self) -> str:
        """The end of what it wrote before its first job."""
        return excerpt(self.process.log, head=0, tail=2048).strip() or "(empty)"

    def _admit(self) -> Worker:
        worker = Worker(self)
        self._workers.append(worker)
        return worker


def await_ready(hub: Hub, groups: Sequence[WorkerGroup], timeout: float = START_TIMEOUT) -> None:
    """Wait until every group is ready for its orders, or broken.

    Raises:
        HarnessError: one could not be started, is not complete, or is not ready in time.
    """
    hub.wait(lambda: all(group.ready or group.broken for group in groups), timeout)
    for group in groups:
        if group.process.failure:
            raise HarnessError(f"ranks could not be started: {group.process.failure}")
        if group.ready:
            check_numbers(group)
        elif not group.broken:
            raise HarnessError(f"ranks were not ready within {timeout:.0f} s; their log ends: {group.words()}")
        elif len(group.workers) < group.size:
            state = f"{len(group.workers)} of {group.size} ranks have come; exit code {group.process.exit_code}"
            raise HarnessError(f"mpiexec has ended ({state}); its log ends: {group.words()}")
        elif any(worker.hello is None for worker in group.workers):
            code = group.process.exit_code
            raise HarnessError(
                f"a rank has ended before it connected (exit code {code}); its log ends: {group.words()}"
            )


def check_numbers(group: WorkerGroup) -> None:
    """See that mpiexec has numbered its ranks from 0.

    Raises:
        HarnessError: it has not.
    """
    if not group.under_mpiexec:
        return
    found = [worker.hello.rank if worker.hello is not None else None for worker in group.workers]
    if found != list(range(group.size)):
        raise HarnessError(
            f"mpiexec has numbered its {group.size} ranks {found}; "
            "expected PMI_RANK or OMPI_COMM_WORLD_RANK to count them from 0"
        )
