"""Work handles, and what drives them.

A collective is a generator: it starts MPI's non-blocking transfers, yields them, and goes on when they are over, to
start others or to add up what came. MPI moves data only while somebody calls it, so somebody must:

- whoever waits for a handle drives all handles of the process, not only the one waited for: two ranks that wait for the
  same handles in different orders do not block each other;
- while asynchronous ones are under way, a thread drives them too, so that they get on while Python computes or waits
  for something else. It needs MPI_THREAD_MULTIPLE, as the program may call MPI itself meanwhile. With less there is no
  thread; they get on only in waits and in `is_completed()`, and `get_future()` waits.

Waiting yields the processor and later sleeps in short naps, so that more ranks than cores get on; unlike MPI's own
waits it ends at a deadline, and at Ctrl-C.
"""

from __future__ import annotations

import atexit
import datetime
import os
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.distributed import DistBackendError, Work

_YIELD_S = 0.002
"""How long after the last sign of progress a wait looks again at once, only yielding the processor, before it naps."""
_NAPS_S = (0.00005, 0.0005)
"""Naps at first, and once nothing has come for a second."""
_THREAD_NAP_S = 0.001

_yield = getattr(os, "sched_yield", None) or (lambda: time.sleep(0))


class Transfer(NamedTuple):
    """A non-blocking MPI call under way.

    Attributes:
        request: MPI's.
        memory: what it reads or writes; kept alive here, as MPI does not.
        nbytes: for a receive, how much must come; None for anything else.
    """

    request: Any
    memory: torch.Tensor | None = None
    nbytes: int | None = None


Steps = Iterator[list[Transfer]]


class MpiWork(Work):
    """A handle of one operation.

    Args:
        progress: what drives it.
        name: of the operation, for messages.
        steps: the operation; yields the transfers to complete before it goes on.
        result: the tensors that hold the result afterwards.
        timeout: how long `wait` waits unless told otherwise.
    """

    def __init__(
        self, progress: Progress, name: str, steps: Steps, result: list[torch.Tensor], timeout: datetime.timedelta
    ) -> None:
        super().__init__()
        self.name = name
        self.done = False
        self.error: Exception | None = None
        self.source: int | None = None
        self._progress = progress
        self._steps = steps
        self._transfers: list[Transfer] = []
        self._result = result
        self._timeout = timeout
        self._future: torch.futures.Future[list[torch.Tensor]] | None = None
        self._told = False

    def advance(self) -> bool:
        """Go on as far as possible without waiting; whether anything moved. Called under the lock of Progress."""
        moved = False
        try:
            while True:
                while self._transfers:
                    if not self._complete(self._transfers[-1]):
                        return moved
                    self._transfers.pop()
                    moved = True
                with (
                    torch.inference_mode()
                ):  # whichever thread this is, the tensors may be a caller's inference tensors
                    self._transfers = next(self._steps)
        except StopIteration:
            self._steps = iter(())  # lets go of the memory
        except Exception as error:  # whatever it is, it belongs to the one who waits
            self.error = error
        self.done = True
        return True

    def announce(self) -> None:
        """Tell the future, if there is one. Called without the lock, as its callbacks may start other operations."""
        with self._progress.lock:
            future, told, self._told = self._future, self._told, self._future is not None
        if future is None or told:
            return
        if self.error is None:
            future.set_result(self._result)
        else:
            future.set_exception(self.error)  # type: ignore[arg-type]  # torch's stub is wrong

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """Wait until the operation is over here; True.

        Args:
            timeout: at most this long; zero or less means the group's.

        Raises:
            DistBackendError: MPI failed, a peer sent another size, or the time is up. The group is of no use then.
            ValueError: the operation was not possible.
        """
        limit = timeout if timeout > datetime.timedelta(0) else self._timeout
        if not self._progress.wait(self, limit.total_seconds()):
            raise DistBackendError(
                f"{self.name} over MPI: not over after {limit.total_seconds():g} s; a peer has not come, or is dead"
            )
        if self.error is not None:
            raise self.error
        return True

    def is_completed(self) -> bool:
        if not self.done:
            self._progress.poll()
        return self.done

    def is_success(self) -> bool:
        return self.is_completed() and self.error is None

    def exception(self) -> Exception | None:
        return self.error

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[torch.Tensor]:
        return self._result

    def source_rank(self) -> int:
        """For a receive that is over: the rank in the group that sent."""
        if self.source is None:
            raise RuntimeError(f"{self.name}: no source before a receive is over")
        return self.source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """A future of the result; see the head of the module for who completes it."""
        with self._progress.lock:
            if self._future is None:
                self._future = torch.futures.Future()
            future = self._future
        if not self.done and not self._progress.watch():
            self.wait()
        if self.done:
            self.announce()
        return future

    def _complete(self, transfer: Transfer) -> bool:
        request, _, nbytes = transfer
        mpi, status = self._progress.mpi, self._progress.status
        try:
            if not request.Test(status):
                return False
        except mpi.Exception as error:
            raise DistBackendError(f"{self.name} over MPI: {error.Get_error_string()}") from error
        if nbytes is not None:
            self.source = status.Get_source()
            came = status.Get_count(mpi.BYTE)
            if came != nbytes:
                raise DistBackendError(
                    f"{self.name} over MPI: rank {self.source} sent {came} bytes where {nbytes} were expected; "
                    "the ranks must pass tensors of the same shape and dtype"
                )
        return True


class JointWork(Work):
    """A handle of several operations at once."""

    def __init__(self, works: list[MpiWork]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """Wait for each of them; True. Raises what `MpiWork.wait` raises."""
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def result(self) -> list[torch.Tensor]:
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self) -> torch.futures.Future[Any]:
        return torch.futures.collect_all([work.get_future() for work in self._works]).then(lambda _: self.result())


class Progress:
    """Drives the operations of this process.

    Args:
        mpi: the module mpi4py.MPI.

    Attributes:
        lock: held by whoever drives.
        threaded: whether MPI allows a thread of its own.
    """

    def __init__(self, mpi: Any) -> None:
        self.mpi = mpi
        self.status = mpi.Status()
        self.lock = threading.RLock()
        self.threaded: bool = mpi.Query_thread() >= mpi.THREAD_MULTIPLE
        self._running: list[MpiWork] = []
        self._failed: list[MpiWork] = []
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self, work: MpiWork, *, asynchronous: bool) -> None:
        """Begin an operation. Its caller waits for it at once unless it is asynchronous."""
        with self.lock:
            work.advance()
            if not work.done:
                self._running.append(work)
        if asynchronous and not work.done:
            self.watch()

    def poll(self) -> bool:
        """Let everything under way go on; whether anything moved."""
        with self.lock:
            moved = False
            for work in self._running:
                moved |= work.advance()
            over = [work for work in self._running if work.done]
            if over:
                self._running = [work for work in self._running if not work.done]
                # MPI may still write to what a failed operation left under way.
                self._failed += [work for work in over if work.error is not None]
        for work in over:
            work.announce()
        return moved

    def wait(self, work: MpiWork, seconds: float) -> bool:
        """Drive everything until `work` is done; False when the time is up before."""
        begin = last = time.monotonic()
        while not work.done:
            moved = self.poll()
            now = time.monotonic()
            if moved:
                last = now
            elif now - begin > seconds:
                return False
            elif now - last < _YIELD_S:
                _yield()
            else:
                time.sleep(_NAPS_S[now - last > 1])
        return True

    def watch(self) -> bool:
        """See to it that the thread runs; False where there can be none."""
        if not self.threaded:
            return False
        with self.lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._drive, name="mpi4py progress", daemon=True)
                self._thread.start()
                atexit.register(self._close)  # runs before mpi4py finalises MPI
        self._wake.set()
        return True

    def idle(self) -> bool:
        """Whether nothing is under way, nor was left so by an error."""
        self.poll()
        return not self._running and not self._failed

    def _drive(self) -> None:
        while not self._closed:
            if not self._running:
                self._wake.clear()
                if not self._running and not self._closed:
                    self._wake.wait()
            time.sleep(_THREAD_NAP_S)
            self.poll()

    def _close(self) -> None:
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
