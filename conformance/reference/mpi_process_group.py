"""A torch process group whose operations travel over MPI."""

# torch's stubs declare forms of these methods that torch itself does not call.
# mypy: disable-error-code="override, assignment"

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp, Work

from conformance.reference.mpi_exchange import Exchange
from conformance.reference.mpi_memory import readable
from conformance.reference.mpi_progress import JointWork, MpiWork, Progress, Steps


class MpiProcessGroup(dist.ProcessGroup):
    """torch's operations over MPI, without a copy of contiguous tensors.

    - Operations: all_reduce, reduce, reduce_scatter, all_gather, gather, scatter, broadcast, all_to_all, barrier, send
      and recv (also from any source), in list, tensor, uneven and coalesced forms; object collectives and
      batch_isend_irecv come with them. Subgroups may overlap. Not: split_group, monitored_barrier.
    - Tensors: dense ones on the CPU, of any dtype, shape and stride. Reductions: SUM, AVG, PRODUCT, MAX, MIN, and BAND,
      BOR, BXOR of integers and bool; none of 8-bit floats. Ranks may gather lists of tensors of different sizes.
    - Reductions are in the order of the ranks; see `mpi_arithmetic`.
    - async_op=True: the operation is under way when the call returns; see `mpi_progress` for what drives it.
    - Every wait ends at the group's timeout, or the operation's own.

    Args:
        mpi: the module mpi4py.MPI.
        communicator: of the members, in the order of their ranks; this object frees it.
        timeout: how long an operation may take.
        name: of the group, for messages.
    """

    def __init__(self, mpi: Any, communicator: Any, timeout: datetime.timedelta, name: str) -> None:
        # The stubs know only the form with a store.
        super().__init__(communicator.Get_rank(), communicator.Get_size())  # type: ignore[call-arg]
        self._mpi = mpi
        self._exchange = Exchange(mpi, communicator)
        self._me: int = communicator.Get_rank()
        self._ranks = range(communicator.Get_size())
        self._name, self._description = name, "undefined"
        self._timeout = timeout
        self._progress = _progress()
        self._alive = True
        self._coalescing: list[MpiWork] | None = None

    # What torch asks of every group.

    def getBackendName(self) -> str:
        return "mpi4py"

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:
        return self._name

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def getGroupDesc(self) -> str:
        return self._description

    @property
    def supports_splitting(self) -> bool:
        return False

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._timeout = timeout

    def shutdown(self) -> None:
        """Free the communicators, unless something is under way. destroy_process_group calls it, in every member."""
        if self._alive and self._progress.idle() and not self._mpi.Is_finalized():
            self._exchange.free()
        self._alive = False

    def abort(self) -> None:
        """Abandon what is under way."""
        self._alive = False

    # Collectives, by the names that torch's C++ knows; older names follow below.

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        given = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        steps = [self._exchange.reduce(tensor, _op(opts), self._ranks) for tensor in given]
        return self._run("all_reduce", given, opts, steps)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        steps = [self._exchange.reduce(tensor, _op(opts), [opts.rootRank]) for tensor in tensors]
        return self._run("reduce", tensors, opts, steps)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        return self._run("broadcast", tensors, opts, [self._exchange.broadcast(tensors, opts.rootRank)])

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        steps = []
        for output, given in zip(outputs, inputs, strict=True):
            steps.append(self._exchange.exchange("all_gather", [readable(given)] * len(self._ranks), output))
        return self._run("all_gather", _flatten(outputs), opts, steps)

    def allgather_coalesced(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> Work:
        # Here outputs has a list for each rank; allgather takes a list for each input.
        return self.allgather([list(output) for output in zip(*outputs, strict=True)], inputs, opts)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> Work:
        steps = [self._exchange.gather_flat(output, given) for output, given in zip(outputs, inputs, strict=True)]
        return self._run("all_gather", outputs, opts, steps)

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None) -> Work:
        steps = []
        for output, given in zip(outputs, inputs, strict=True):
            steps.append(self._exchange.reduce_scatter(output, [readable(tensor) for tensor in given], _op(opts)))
        return self._run("reduce_scatter", outputs, opts, steps)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> Work:
        steps = []
        for output, given in zip(outputs, inputs, strict=True):
            steps.append(
                self._exchange.reduce_scatter(
                    output, self._exchange.shares("reduce_scatter", readable(given)), _op(opts)
                )
            )
        return self._run("reduce_scatter", outputs, opts, steps)

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> Work:
        steps = []
        for index, given in enumerate(inputs):
            gives = [readable(given) if rank == opts.rootRank else None for rank in self._ranks]
            takes = outputs[index] if self._me == opts.rootRank else [None] * len(self._ranks)
            steps.append(self._exchange.exchange("gather", gives, takes))
        return self._run("gather", _flatten(outputs), opts, steps)

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> Work:
        steps = []
        for index, output in enumerate(outputs):
            gives = [readable(tensor) for tensor in inputs[index]] if self._me == opts.rootRank else None
            takes = [output if rank == opts.rootRank else None for rank in self._ranks]
            steps.append(self._exchange.exchange("scatter", gives or [None] * len(self._ranks), takes))
        return self._run("scatter", outputs, opts, steps)

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        steps = self._exchange.exchange("all_to_all", [readable(given) for given in inputs], outputs)
        return self._run("all_to_all", outputs, opts, [steps])

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        opts: Any = None,
    ) -> Work:
        steps = self._exchange.all_to_all(output, input, output_split_sizes, input_split_sizes)
        return self._run("all_to_all", [output], opts, [steps])

    def barrier(self, opts: Any = None) -> Work:
        return self._run("barrier", [], opts, [self._exchange.barrier()])

    # Point to point.

    def send(self, tensors: list[torch.Tensor], dstRank: int, tag: int = 0) -> Work:
        return self._run("send", tensors, None, [self._exchange.send(tensor, dstRank, tag) for tensor in tensors])

    def recv(self, tensors: list[torch.Tensor], srcRank: int, tag: int = 0) -> Work:
        return self._run("recv", tensors, None, [self._exchange.receive(tensor, srcRank, tag) for tensor in tensors])

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> Work:
        return self.recv(tensors, self._mpi.ANY_SOURCE, tag)

    # Coalescing: what starts in between gets one handle.

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalescing = []

    def _end_coalescing(self, device: torch.device) -> Work:
        works, self._coalescing = self._coalescing or [], None
        return JointWork(works)

    # What C++ calls from torch 2.14 on.

    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing

    # The names of torch before 2.13.

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # How an operation becomes a handle.

    def _run(self, name: str, result: list[torch.Tensor], opts: Any, steps: Sequence[Steps]) -> Work:
        if not self._alive:
            raise RuntimeError(f"{name}: the process group {self._name} was shut down")
        limit = getattr(opts, "timeout", None)
        timeout = limit if limit is not None and limit > datetime.timedelta(0) else self._timeout
        work = MpiWork(self._progress, name, itertools.chain.from_iterable(steps), result, timeout)
        asynchronous = self._coalescing is not None or getattr(opts, "asyncOp", True)
        self._progress.start(work, asynchronous=asynchronous)
        if self._coalescing is not None:
            self._coalescing.append(work)
        elif not asynchronous:
            work.wait()
        return work


def _op(opts: Any) -> Any:
    return ReduceOp.SUM if opts is None else opts.reduceOp


def _flatten(lists: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    return [tensor for each in lists for tensor in each]


@functools.cache
def _progress() -> Progress:
    """One for the process: whoever waits drives the operations of all groups."""
    from mpi4py import MPI

    return Progress(MPI)
