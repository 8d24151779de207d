"""The operations of a group as transfers of MPI.

Methods that return Steps check their arguments and take a tag at once, in the order of the program's calls, which is
the same in every rank. They transfer later, when the steps are driven.

Broadcast and barrier are MPI's. The rest are point-to-point transfers of MPI: unlike MPI's collectives, these read and
write a list of tensors where it lies, and leave the order of additions to this module.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Sequence
from typing import Any

import torch

from conformance.reference.mpi_arithmetic import Reduction, reduction
from conformance.reference.mpi_memory import Scratch, give_back, message, readable, writable
from conformance.reference.mpi_progress import Steps, Transfer

_SCRATCH_BYTES = 1 << 25
"""What peers send for a reduction goes here first, and larger reductions in segments that fit. Smaller segments are
slower: each is another moment at which all ranks must have a processor."""
_WHOLE_BYTES = 1 << 15
"""Up to this size every rank sends all of its tensor and adds up all of it: one exchange instead of two."""
_LINE = 64
"""Ranks' shares of a tensor are a multiple of this many elements, for aligned arithmetic."""
_TAGS = 1 << 15
"""MPI promises tags up to 32767."""


class Exchange:
    """What the members of one group send each other.

    Args:
        mpi: the module mpi4py.MPI.
        communicator: of the members, in the order of their ranks; `free` frees it.
    """

    def __init__(self, mpi: Any, communicator: Any) -> None:
        self._mpi = mpi
        self._me: int = communicator.Get_rank()
        self._ranks = range(communicator.Get_size())
        # Messages of the program itself, broadcast and barrier | messages of this class, which has tags of its own.
        self._open, self._inner = communicator, communicator.Dup()
        for each in (self._open, self._inner):
            each.Set_errhandler(mpi.ERRORS_RETURN)
        self._started = 0

    def free(self) -> None:
        """Give the communicators back to MPI; every member must."""
        self._inner.Free()
        self._open.Free()

    def shares(
        self, name: str, flat: torch.Tensor, tensor: torch.Tensor | None = None, rows: Sequence[int] = ()
    ) -> list[torch.Tensor]:
        """A flat tensor cut into one share a rank: equal ones, or of so many rows of the tensor that it came from."""
        world = len(self._ranks)
        if tensor is not None and rows:
            if len(rows) != world or sum(rows) != tensor.shape[0]:
                raise ValueError(f"{name}: splits {list(rows)} of {tensor.shape[0]} rows among {world} ranks")
            width = flat.numel() // max(1, tensor.shape[0])
            ends = list(itertools.accumulate(count * width for count in rows))
            return [flat[end - count * width : end] for count, end in zip(rows, ends, strict=True)]
        if flat.numel() % world:
            raise ValueError(f"{name}: {flat.numel()} elements cannot be shared equally by {world} ranks")
        share = flat.numel() // world
        return [flat[rank * share : (rank + 1) * share] for rank in self._ranks]

    def exchange(self, name: str, gives: Sequence[torch.Tensor | None], takes: Sequence[torch.Tensor | None]) -> Steps:
        """Give each rank a flat tensor and take one from each; None where nothing goes that way."""
        for what, tensors in (("given", gives), ("taken", takes)):
            if len(tensors) != len(self._ranks):
                raise ValueError(f"{name}: {len(tensors)} tensors {what} among {len(self._ranks)} ranks")
        rooms = [None if take is None else writable(take) for take in takes]
        mine, room = gives[self._me], rooms[self._me]
        if mine is not None and room is not None and mine.nbytes != room.nbytes:
            raise ValueError(f"{name}: rank {self._me} gives itself {mine.nbytes} bytes and takes {room.nbytes}")
        tag = self._tag()

        def steps() -> Steps:
            transfers = self._receives(rooms, tag) + self._sends(gives, tag)
            if mine is not None and room is not None:
                give_back(mine, room)
            yield transfers
            for flat, take in zip(rooms, takes, strict=True):
                if flat is not None and take is not None:
                    give_back(flat, take)

        return steps()

    def all_to_all(self, output: torch.Tensor, given: torch.Tensor, takes: list[int], gives: list[int]) -> Steps:
        """Give each rank so many rows and take so many; equal shares where the lists are empty."""
        room = writable(output)
        given_shares = self.shares("all_to_all", readable(given), given, gives)
        return _then(
            self.exchange("all_to_all", given_shares, self.shares("all_to_all", room, output, takes)), room, output
        )

    def gather_flat(self, output: torch.Tensor, given: torch.Tensor) -> Steps:
        """Take every rank's tensor into one of as many times the size."""
        room = writable(output)
        takes = self.shares("all_gather", room)
        return _then(self.exchange("all_gather", [readable(given)] * len(self._ranks), takes), room, output)

    def reduce(self, tensor: torch.Tensor, op: Any, targets: Collection[int]) -> Steps:
        """Reduce a tensor of every rank; the targets keep the result in theirs."""
        rule = reduction(op, tensor.dtype)
        flat = readable(tensor)
        tag = self._tag()
        steps = self._reduce_whole if flat.nbytes <= _WHOLE_BYTES else self._reduce_shared
        return _then(steps(flat, rule, targets, tag), flat, tensor if self._me in targets else None)

    def _reduce_whole(self, flat: torch.Tensor, rule: Reduction, targets: Collection[int], tag: int) -> Steps:
        rooms: list[torch.Tensor | None] = [None] * len(self._ranks)
        if self._me in targets:
            rooms = [torch.empty_like(flat) for _ in self._ranks]
        yield self._receives(rooms, tag) + self._sends([flat if rank in targets else None for rank in self._ranks], tag)
        if self._me in targets:
            rule([flat if rank == self._me else room for rank, room in enumerate(rooms) if room is not None], flat)

    def _reduce_shared(self, flat: torch.Tensor, rule: Reduction, targets: Collection[int], tag: int) -> Steps:
        """Each rank reduces a share, and sends it to the targets while the next segment comes."""
        share = -(-flat.numel() // (len(self._ranks) * _LINE)) * _LINE
        shares = [flat[rank * share : (rank + 1) * share] for rank in self._ranks]
        mine = shares[self._me]
        return self._reduce_segments(
            shares, mine if self._me in targets else torch.empty_like(mine), rule, tag, targets
        )

    def reduce_scatter(self, output: torch.Tensor, shares: list[torch.Tensor], op: Any) -> Steps:
        """Reduce this rank's share; shares are flat, what this rank contributes to each rank's."""
        rule = reduction(op, output.dtype)
        if len(shares) != len(self._ranks) or shares[self._me].nbytes != output.nbytes:
            raise ValueError(
                f"reduce_scatter: {len(shares)} inputs among {len(self._ranks)} ranks, and an output of "
                f"{output.nbytes} bytes; each rank's input must be as large as its output"
            )
        room = writable(output)
        return _then(self._reduce_segments(shares, room, rule, self._tag()), room, output)

    def _reduce_segments(
        self,
        shares: Sequence[torch.Tensor],
        out: torch.Tensor,
        rule: Reduction,
        tag: int,
        targets: Collection[int] = (),
    ) -> Steps:
        """Reduce this rank's share, segment by segment.

        All messages have one tag: MPI keeps the order of those between two ranks, and every rank starts them in the
        same order.

        Args:
            shares: what this rank contributes to each rank's share.
            out: takes this rank's reduced share.
            targets: ranks that get all reduced shares, in the place of their contributions.
        """
        scratch = _scratch(_SCRATCH_BYTES // max(1, len(self._ranks) - 1))
        length = scratch.nbytes // out.itemsize
        longest = max(share.numel() for share in shares)
        if not longest:
            return
        pieces: dict[int, list[torch.Tensor]] = {}
        forwarded: list[Transfer] = []

        def begin(start: int) -> list[Transfer]:
            segments = [share[start : start + length] for share in shares]
            size = segments[self._me].nbytes
            pieces[start] = [scratch.take() for rank in self._ranks if rank != self._me]
            rooms: list[torch.Tensor | None] = [piece[:size].view(out.dtype) for piece in pieces[start]]
            rooms.insert(self._me, None)
            return self._receives(rooms, tag) + self._sends(segments, tag)

        ahead = begin(0)
        for start in range(0, longest, length):
            transfers, ahead = ahead, begin(start + length) if start + length < longest else []
            yield transfers
            mine, room = shares[self._me][start : start + length], out[start : start + length]
            parts = [piece[: room.nbytes].view(out.dtype) for piece in pieces[start]]
            parts.insert(self._me, mine)
            rule(parts, room)
            for piece in pieces.pop(start):
                scratch.give(piece)
            if self._me in targets:
                forwarded += self._receives([share[start : start + length] for share in shares], tag)
            forwarded += self._sends([room if rank in targets else None for rank in self._ranks], tag)
        yield forwarded

    def broadcast(self, tensors: Sequence[torch.Tensor], root: int) -> Steps:
        """Give every rank the tensors of one."""
        flats = [readable(tensor) if self._me == root else writable(tensor) for tensor in tensors]

        def steps() -> Steps:
            # All at once: MPI matches collectives by their order, which would else depend on when others end.
            yield [Transfer(self._open.Ibcast(message(self._mpi, flat), root), flat) for flat in flats if flat.nbytes]
            if self._me != root:
                for flat, tensor in zip(flats, tensors, strict=True):
                    give_back(flat, tensor)

        return steps()

    def barrier(self) -> Steps:
        """Over when every rank has begun it."""
        yield [Transfer(self._open.Ibarrier())]

    def send(self, tensor: torch.Tensor, rank: int, tag: int) -> Steps:
        """A message of the program."""
        flat = readable(tensor)

        def steps() -> Steps:
            yield [Transfer(self._open.Isend(message(self._mpi, flat), rank, tag), flat)]

        return steps()

    def receive(self, tensor: torch.Tensor, rank: int, tag: int) -> Steps:
        """A message of the program, from one rank or from mpi4py.MPI.ANY_SOURCE."""
        flat = writable(tensor)

        def steps() -> Steps:
            yield [Transfer(self._open.Irecv(message(self._mpi, flat), rank, tag), flat, flat.nbytes)]
            give_back(flat, tensor)

        return steps()

    def _tag(self) -> int:
        self._started += 1
        return self._started % _TAGS

    def _receives(self, rooms: Sequence[torch.Tensor | None], tag: int) -> list[Transfer]:
        return [
            Transfer(self._inner.Irecv(message(self._mpi, room), rank, tag), room, room.nbytes)
            for rank, room in enumerate(rooms)
            if rank != self._me and room is not None and room.nbytes
        ]

    def _sends(self, gives: Sequence[torch.Tensor | None], tag: int) -> list[Transfer]:
        return [
            Transfer(self._inner.Isend(message(self._mpi, give), rank, tag), give)
            for rank, give in enumerate(gives)
            if rank != self._me and give is not None and give.nbytes
        ]


def _then(steps: Steps, flat: torch.Tensor, tensor: torch.Tensor | None) -> Steps:
    yield from steps
    if tensor is not None:
        give_back(flat, tensor)


@functools.cache
def _scratch(nbytes: int) -> Scratch:
    return Scratch(nbytes, keep=2 * _SCRATCH_BYTES // nbytes)
