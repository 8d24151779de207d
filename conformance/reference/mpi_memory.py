"""Tensors as what MPI can read and write: flat, contiguous memory of the host.

Where a tensor is that already, MPI gets its very memory; else a copy, whose values go back when the transfer is over.
"""

from __future__ import annotations

from typing import Any

import torch


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a tensor in one flat piece: the tensor's own memory, or a copy.

    Raises:
        ValueError: the tensor is not a dense one of the host.
    """
    _refuse_foreign(tensor)
    return tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1)


def writable(tensor: torch.Tensor) -> torch.Tensor:
    """Room for the values of a tensor in one flat piece; `give_back` brings them to the tensor.

    Raises:
        ValueError: the tensor is not a dense one of the host.
    """
    _refuse_foreign(tensor)
    tensor = tensor.detach()
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor.view(-1)
    return torch.empty(tensor.numel(), dtype=tensor.dtype)


def give_back(flat: torch.Tensor, tensor: torch.Tensor) -> None:
    """Bring what `writable` or `readable` gave for a tensor back to it, unless it is the tensor's own memory."""
    if flat.data_ptr() != tensor.data_ptr():
        tensor.detach().copy_(flat.view(tensor.shape))


def message(mpi: Any, flat: torch.Tensor) -> list[Any]:
    """A flat tensor as mpi4py takes it: its memory, as bytes. The caller keeps the tensor alive."""
    return [mpi.buffer.fromaddress(flat.data_ptr(), flat.nbytes), mpi.BYTE]


def _refuse_foreign(tensor: torch.Tensor) -> None:
    if tensor.device.type != "cpu":
        raise ValueError(
            f"a tensor on {tensor.device}: the mpi4py backend carries CPU tensors only; "
            "move it to the CPU, or use gloo or nccl"
        )
    if tensor.layout is not torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout}: the mpi4py backend carries dense ones; call to_dense()")


class Scratch:
    """Pieces of memory for what peers send, kept for the next time: fresh memory costs a page fault each 4 KiB.

    Args:
        nbytes: the size of a piece.
        keep: how many pieces to keep at most.
    """

    def __init__(self, nbytes: int, keep: int) -> None:
        self.nbytes = nbytes
        self._keep = keep
        self._free: list[torch.Tensor] = []

    def take(self) -> torch.Tensor:
        """A piece, as bytes."""
        return self._free.pop() if self._free else torch.empty(self.nbytes, dtype=torch.uint8)

    def give(self, piece: torch.Tensor) -> None:
        """Put back a piece that nothing reads or writes any more."""
        if len(self._free) < self._keep:
            self._free.append(piece)
