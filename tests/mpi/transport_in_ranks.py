"""What the ranks of test_mpi_transport.py run: each check by value, against plain numpy.

Usage: python -m mpi4py transport_in_ranks.py RESULT.json
Rank 0 writes, for each check, the error of each rank or null.
"""

from __future__ import annotations

import datetime
import itertools
import json
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.distributed import ReduceOp

from conformance.reference import mpi_exchange, mpi_process_group, mpi_transport

# torch 2.13 renamed these and warns; earlier ones have only the old names.
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

CHECKS: dict[str, Callable[[int, int], None]] = {}
SIZES = (0, 1, 7, 1000, 8191, 70_001)
"""None, one, fewer than a cache line, one exchange, one exchange but odd, and two exchanges."""
LARGE = 300_007
"""Several segments of scratch memory, where a check makes that small."""
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def check(function: Callable[[int, int], None]) -> Callable[[int, int], None]:
    CHECKS[function.__name__] = function
    return function


def values(rank: int, size: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """What a rank contributes; every rank can compute that of every other."""
    numbers = np.random.default_rng([rank, size, seed])
    if dtype == torch.bool:
        return torch.from_numpy(numbers.integers(0, 2, size).astype(bool))
    if dtype.is_floating_point or dtype.is_complex:
        made = torch.from_numpy(numbers.standard_normal(size))
        return (made + 1j * made.flip(0) if dtype.is_complex else made).to(dtype)
    return torch.from_numpy(numbers.integers(0, 5, size)).to(dtype)


def wide(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    return (tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor).numpy()


def expected(op: Any, world: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """The reduction in the order of ranks; half precision in float32, rounded once."""
    parts = [wide(values(rank, size, dtype)) for rank in range(world)]
    join = {
        ReduceOp.SUM: np.add,
        ReduceOp.AVG: np.add,
        ReduceOp.PRODUCT: np.multiply,
        ReduceOp.MAX: np.maximum,
        ReduceOp.MIN: np.minimum,
        ReduceOp.BAND: np.bitwise_and,
        ReduceOp.BOR: np.bitwise_or,
        ReduceOp.BXOR: np.bitwise_xor,
    }[op]
    total = parts[0]
    for part in parts[1:]:
        total = join(total, part)
    if op == ReduceOp.AVG:
        total = (total / total.dtype.type(world)).astype(total.dtype)
    return torch.from_numpy(np.asarray(total)).to(dtype)


def same(got: torch.Tensor, wanted: torch.Tensor, what: object = "") -> None:
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, f"{what}: {got.dtype} {got.shape}"
    assert torch.equal(got, wanted), f"{what}: got {got.flatten()[:5]}, wanted {wanted.flatten()[:5]}"


def refused(error: type[Exception], text: str, call: Callable[[], object]) -> None:
    try:
        call()
    except error as caught:
        assert text in str(caught), f"{text!r} is not in {str(caught)!r}"
    else:
        raise AssertionError(f"not refused: {text}")


@check
def all_reduce_of_every_size(rank: int, world: int) -> None:
    for size in (*SIZES, 9_000_011):
        tensor = values(rank, size)
        dist.all_reduce(tensor)
        same(tensor, expected(ReduceOp.SUM, world, size, torch.float32), size)


@check
def all_reduce_of_every_dtype_and_op(rank: int, world: int) -> None:
    sums = (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.MAX, ReduceOp.MIN)
    bits = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
    for dtype, ops in ((FLOATS, sums), (INTEGERS, sums + bits), ((torch.bool,), (ReduceOp.MAX, ReduceOp.MIN, *bits))):
        for each, op, size in itertools.product(dtype, ops, (5, 70_001)):
            tensor = values(rank, size, each)
            dist.all_reduce(tensor, op)
            same(tensor, expected(op, world, size, each), (each, op, size))


@check
def all_reduce_of_complex_numbers(rank: int, world: int) -> None:
    for dtype in (torch.complex64, torch.complex128):
        tensor = values(rank, 33, dtype)
        dist.all_reduce(tensor)
        same(tensor, sum((values(other, 33, dtype) for other in range(1, world)), values(0, 33, dtype)), dtype)


@check
def half_precision_rounds_once(rank: int, world: int) -> None:
    # 1 + 2^-8 lies between two bfloat16; each addition alone would round it away.
    tensor = torch.full((4,), 1.0 if rank == 0 else 2.0**-8 * 3 / (world - 1), dtype=torch.bfloat16)
    wanted = torch.tensor(1.0)
    for _ in range(1, world):
        wanted = wanted + torch.tensor(2.0**-8 * 3 / (world - 1), dtype=torch.bfloat16).float()
    dist.all_reduce(tensor)
    same(tensor, wanted.to(torch.bfloat16).expand(4))


@check
def odd_shapes(rank: int, world: int) -> None:
    scalar = torch.tensor(float(rank + 1))
    dist.all_reduce(scalar)
    assert scalar.item() == world * (world + 1) / 2
    plain = values(rank, 5000).view(50, 100)
    wanted = expected(ReduceOp.SUM, world, 5000, torch.float32).view(50, 100)
    turned = plain.t()  # not contiguous
    dist.all_reduce(turned)
    same(turned, wanted.t())
    strided = torch.zeros(100, 200)[:, ::2]
    strided[:50] = values(rank, 5000).view(50, 100)
    dist.all_reduce(strided)
    same(strided[:50], wanted)
    last = torch.stack([values(rank, 6).view(2, 3), torch.zeros(2, 3)]).permute(1, 2, 0)[..., 0]
    gathered = [torch.zeros(3, 2).t() for _ in range(world)]
    dist.all_gather(gathered, last)
    for other in range(world):
        same(gathered[other], values(other, 6).view(2, 3))
    grown = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(grown)
    same(grown.detach(), torch.full((3,), float(world)))
    with torch.inference_mode():
        inferred = torch.ones(70_001)
        dist.all_reduce(inferred)
        handle = dist.all_reduce(inferred, async_op=True)
        time.sleep(0.05)
        handle.wait()
        assert inferred[-1].item() == world * world


@check
def broadcast(rank: int, world: int) -> None:
    for root, size, dtype in itertools.product(range(world), SIZES, (torch.float32, torch.bfloat16, torch.bool)):
        tensor = values(rank, size, dtype)
        dist.broadcast(tensor, root)
        same(tensor, values(root, size, dtype), (root, size, dtype))
    turned = values(rank, 6).view(2, 3).t()
    dist.broadcast(turned, 0)
    same(turned, values(0, 6).view(2, 3).t())


@check
def reduce(rank: int, world: int) -> None:
    for root, size in itertools.product(range(world), SIZES):
        tensor = values(rank, size)
        dist.reduce(tensor, root)
        same(tensor, expected(ReduceOp.SUM, world, size, torch.float32) if rank == root else values(rank, size), size)


@check
def all_gather(rank: int, world: int) -> None:
    for size, dtype in itertools.product(SIZES, (torch.float32, torch.bfloat16, torch.int64, torch.bool)):
        outputs = [torch.zeros(size, dtype=dtype) for _ in range(world)]
        dist.all_gather(outputs, values(rank, size, dtype))
        output = torch.zeros(size * world, dtype=dtype)
        all_gather_single(output, values(rank, size, dtype))
        for other in range(world):
            same(outputs[other], values(other, size, dtype), size)
            same(output[size * other : size * (other + 1)], values(other, size, dtype), size)


@check
def all_gather_in_place(rank: int, world: int) -> None:
    """As ZeRO does: the input is this rank's part of the output."""
    output = torch.zeros(1000 * world)
    mine = output[1000 * rank : 1000 * (rank + 1)]
    mine.copy_(values(rank, 1000))
    all_gather_single(output, mine)
    same(output, torch.cat([values(other, 1000) for other in range(world)]))


@check
def all_gather_of_different_sizes(rank: int, world: int) -> None:
    outputs = [torch.zeros(other + 1) for other in range(world)]
    dist.all_gather(outputs, values(rank, rank + 1))
    for other in range(world):
        same(outputs[other], values(other, other + 1))


@check
def reduce_scatter(rank: int, world: int) -> None:
    for size, dtype in itertools.product(SIZES, (torch.float32, torch.bfloat16, torch.int32)):
        wanted = expected(ReduceOp.SUM, world, size * world, dtype)[size * rank : size * (rank + 1)]
        output = torch.zeros(size, dtype=dtype)
        reduce_scatter_single(output, values(rank, size * world, dtype))
        same(output, wanted, size)
        listed = torch.zeros(size, dtype=dtype)
        dist.reduce_scatter(
            listed, [values(rank, size * world, dtype)[size * r : size * (r + 1)] for r in range(world)]
        )
        same(listed, wanted, size)


@check
def reductions_in_segments(rank: int, world: int) -> None:
    """As those of tensors that are larger than the scratch memory, which is made small here."""
    usual = mpi_exchange._SCRATCH_BYTES
    mpi_exchange._SCRATCH_BYTES = 1 << 16
    try:
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            handles = []
            tensors = [values(rank, size, dtype) for size in (LARGE, LARGE // 2, 20_001)]
            for tensor in tensors:  # several at once
                handles.append(dist.all_reduce(tensor, ReduceOp.AVG, async_op=True))
            for tensor, handle in zip(tensors, handles, strict=True):
                handle.wait()
                same(tensor, expected(ReduceOp.AVG, world, tensor.numel(), dtype), dtype)
            for root in range(world):
                tensor = values(rank, LARGE, dtype)
                dist.reduce(tensor, root, ReduceOp.MAX)
                wanted = expected(ReduceOp.MAX, world, LARGE, dtype)
                same(tensor, wanted if rank == root else values(rank, LARGE, dtype), root)
    finally:
        mpi_exchange._SCRATCH_BYTES = usual


@check
def reduce_scatter_in_place(rank: int, world: int) -> None:
    size = 70_001
    given = values(rank, size * world)
    wanted = expected(ReduceOp.AVG, world, size * world, torch.float32)[size * rank : size * (rank + 1)]
    mine = given[size * rank : size * (rank + 1)]
    reduce_scatter_single(mine, given, op=ReduceOp.AVG)
    same(mine, wanted)


@check
def reduce_scatter_of_different_sizes(rank: int, world: int) -> None:
    output = torch.zeros(rank + 1)
    dist.reduce_scatter(output, [values(rank, other + 1, seed=other) for other in range(world)])
    total = values(0, rank + 1, seed=rank)
    for other in range(1, world):
        total = total + values(other, rank + 1, seed=rank)
    same(output, total)


@check
def gather_and_scatter(rank: int, world: int) -> None:
    for root, size in itertools.product(range(world), SIZES):
        outputs = [torch.zeros(size) for _ in range(world)] if rank == root else None
        dist.gather(values(rank, size), outputs, dst=root)
        for other, output in enumerate(outputs or []):
            same(output, values(other, size), size)
        output = torch.zeros(size)
        inputs = [values(root, size, seed=other) for other in range(world)] if rank == root else None
        dist.scatter(output, inputs, src=root)
        same(output, values(root, size, seed=rank), size)


@check
def all_to_all(rank: int, world: int) -> None:
    for size in (0, 1, 1000, 70_001):
        output = torch.zeros(size * world)
        dist.all_to_all_single(output, torch.cat([values(rank, size, seed=other) for other in range(world)]))
        same(output, torch.cat([values(other, size, seed=rank) for other in range(world)]), size)
        outputs = [torch.zeros(size + other) for other in range(world)]
        dist.all_to_all(outputs, [values(rank, size + rank, seed=other) for other in range(world)])
        for other in range(world):
            same(outputs[other], values(other, size + other, seed=rank), size)


@check
def all_to_all_of_uneven_splits(rank: int, world: int) -> None:
    # Rank r gives rank s r * s rows of two numbers: nothing to or from rank 0.
    gives = [rank * other for other in range(world)]
    given = torch.cat([values(rank, 2 * count, seed=other) for other, count in enumerate(gives)]).view(-1, 2)
    output = torch.zeros(sum(gives), 2)
    dist.all_to_all_single(output, given, gives, gives)
    same(output.flatten(), torch.cat([values(other, 2 * rank * other, seed=rank) for other in range(world)]))


@check
def point_to_point(rank: int, world: int) -> None:
    right, left = (rank + 1) % world, (rank - 1) % world
    for size, dtype in itertools.product((0, 1, 70_001, 1_000_000), (torch.float32, torch.bfloat16)):
        got = torch.zeros(size, dtype=dtype)
        receiving = dist.irecv(got, left)
        sending = dist.isend(values(rank, size, dtype), right)
        receiving.wait()
        sending.wait()
        same(got, values(left, size, dtype), size)
    if rank == 0:  # tags keep messages apart, whatever their order
        dist.send(torch.tensor([1.0]), 1, tag=1)
        dist.send(torch.tensor([2.0]), 1, tag=2)
    if rank == 1:
        later, earlier = torch.zeros(1), torch.zeros(1)
        dist.recv(later, 0, tag=2)
        dist.recv(earlier, 0, tag=1)
        assert (earlier.item(), later.item()) == (1.0, 2.0)


@check
def receive_from_anybody(rank: int, world: int) -> None:
    if rank:
        dist.send(torch.full((3,), float(rank)), 0)
        return
    sources = set()
    for _ in range(1, world):
        got = torch.zeros(3)
        source = dist.recv(got)
        same(got, torch.full((3,), float(source)))
        sources.add(source)
    assert sources == set(range(1, world))


@check
def batches_of_messages(rank: int, world: int) -> None:
    right, left = (rank + 1) % world, (rank - 1) % world
    got = torch.zeros(100)
    ops = [dist.P2POp(dist.isend, values(rank, 100), right), dist.P2POp(dist.irecv, got, left)]
    for handle in dist.batch_isend_irecv(ops):
        handle.wait()
    same(got, values(left, 100))


@check
def objects(rank: int, world: int) -> None:
    gathered: list[Any] = [None] * world
    dist.all_gather_object(gathered, {"rank": rank, "text": "é" * rank})
    assert gathered == [{"rank": other, "text": "é" * other} for other in range(world)]
    sent = ["a", {"b": 1}, None] if rank == 0 else [None] * 3
    dist.broadcast_object_list(sent, 0)
    assert sent == ["a", {"b": 1}, None]
    collected: list[Any] | None = [None] * world if rank == world - 1 else None
    dist.gather_object((rank,), collected, dst=world - 1)
    assert collected is None or collected == [(other,) for other in range(world)]
    scattered: list[Any] = [None]
    dist.scatter_object_list(scattered, [f"for {other}" for other in range(world)] if rank == 0 else None, src=0)
    assert scattered == [f"for {rank}"]


@check
def barrier(rank: int, world: int) -> None:
    time.sleep(0.1 * (world - rank))
    before = time.time()
    dist.barrier()
    times: list[Any] = [None] * world
    dist.all_gather_object(times, (before, time.time()))
    assert max(arrival for arrival, _ in times) <= min(leaving for _, leaving in times)


@check
def subgroups(rank: int, world: int) -> None:
    pairs = [dist.new_group([other, (other + 1) % world]) for other in range(world if world > 2 else 1)]
    for first, group in enumerate(pairs):
        members = sorted({first, (first + 1) % world})
        if rank not in members:
            continue
        tensor = values(rank, 70_001)
        dist.all_reduce(tensor, group=group)
        same(tensor, values(members[0], 70_001) + values(members[1], 70_001))
        root = torch.tensor([float(rank)])
        dist.broadcast(root, members[1], group=group)
        assert root.item() == members[1]
    alone = dist.new_group([rank], use_local_synchronization=True)  # each rank its own, without the others
    tensor = values(rank, 9)
    dist.all_reduce(tensor, ReduceOp.AVG, group=alone)
    same(tensor, values(rank, 9))
    gathered = [torch.zeros(9)]
    dist.all_gather(gathered, tensor, group=alone)
    same(gathered[0], tensor)
    turned = dist.new_group(list(reversed(range(world))))
    assert dist.get_rank(turned) in range(world)
    tensor = torch.tensor([float(rank)])
    dist.broadcast(tensor, world - 1, group=turned)
    assert tensor.item() == world - 1
    for group in (alone, turned):
        dist.destroy_process_group(group)


@check
def many_groups_come_and_go(rank: int, world: int) -> None:
    """An MPI has a few thousand communicators; groups must give theirs back."""
    for _ in range(40):
        group = dist.new_group(list(range(world)))
        dist.barrier(group)
        dist.destroy_process_group(group)


@check
def async_handles(rank: int, world: int) -> None:
    tensors = [values(rank, size) for size in (*SIZES, 2_000_000)]
    handles = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    order = list(zip(tensors, handles, strict=True))
    for tensor, handle in order if rank % 2 else reversed(order):  # each rank waits in an order of its own
        assert handle.wait()
        assert handle.is_completed() and handle.is_success() and handle.exception() is None
        same(tensor, expected(ReduceOp.SUM, world, tensor.numel(), torch.float32))
        same(handle.result()[0], tensor)


@check
def async_in_one_rank_only(rank: int, world: int) -> None:
    """async_op is each rank's own affair."""
    for size in (1000, 2_000_000):
        tensor = values(rank, size)
        handle = dist.all_reduce(tensor, async_op=rank == 0)
        if handle is not None:
            handle.wait()
        same(tensor, expected(ReduceOp.SUM, world, size, torch.float32))


@check
def async_goes_on_without_wait(rank: int, world: int) -> None:
    """A rank that does something else keeps nobody waiting."""
    tensor = values(rank, 2_000_000)
    if rank == 0:
        handle = dist.all_reduce(tensor, async_op=True)
        told = mpi().COMM_WORLD.recv(source=1, tag=77)  # from the other side of the operation
        assert told == "over"
        handle.wait()
    else:
        dist.all_reduce(tensor)
        if rank == 1:
            mpi().COMM_WORLD.send("over", dest=0, tag=77)
    same(tensor, expected(ReduceOp.SUM, world, 2_000_000, torch.float32))


@check
def futures(rank: int, world: int) -> None:
    tensor = values(rank, 70_001)
    wanted = expected(ReduceOp.SUM, world, 70_001, torch.float32)
    future = dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    same(future.wait(), wanted * 2)
    over = dist.all_reduce(torch.ones(1), async_op=True)
    over.wait()
    assert over.get_future().done()
    both = [values(rank, 10), values(rank, 70_001)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.all_reduce_coalesced(both, async_op=True).wait()
    same(both[0], expected(ReduceOp.SUM, world, 10, torch.float32))
    same(both[1], wanted)


@check
def without_a_thread(rank: int, world: int) -> None:
    """As with an MPI that does not allow one: futures wait, and everything else goes on in waits."""
    progress = mpi_process_group._progress()
    assert progress.threaded == (mpi().Query_thread() >= mpi().THREAD_MULTIPLE)
    threaded, progress.threaded = progress.threaded, False
    try:
        tensors = [values(rank, size) for size in (9, 70_001)]
        handles = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        assert handles[1].get_future().done()
        while not handles[0].is_completed():
            time.sleep(0.001)
        for tensor in tensors:
            same(tensor, expected(ReduceOp.SUM, world, tensor.numel(), torch.float32))
        dist.barrier()
    finally:
        progress.threaded = threaded


@check
def names_before_torch_2_13(rank: int, world: int) -> None:
    """What the Python of torch 2.11 and 2.12 calls, and some C++ of 2.13 still does."""
    group = dist.group.WORLD
    given = values(rank, 1000 * world)
    whole = torch.cat([values(other, 1000) for other in range(world)])
    part = expected(ReduceOp.SUM, world, 1000 * world, torch.float32)[1000 * rank : 1000 * (rank + 1)]
    output, piece = torch.zeros(1000 * world), torch.zeros(1000)
    group._allgather_base(output, values(rank, 1000), c10d.AllgatherOptions()).wait()
    same(output, whole)
    output.zero_()
    group.allgather_into_tensor_coalesced([output], [values(rank, 1000)]).wait()
    same(output, whole)
    group._reduce_scatter_base(piece, given, c10d.ReduceScatterOptions()).wait()
    same(piece, part)
    piece.zero_()
    group.reduce_scatter_tensor_coalesced([piece], [given], c10d.ReduceScatterOptions()).wait()
    same(piece, part)
    group.alltoall_base(output, given, [], [], c10d.AllToAllOptions()).wait()
    same(output, torch.cat([values(other, 1000 * world)[1000 * rank : 1000 * (rank + 1)] for other in range(world)]))


@check
def coalesced(rank: int, world: int) -> None:
    manager = dist.distributed_c10d._coalescing_manager
    for device in (None, torch.device("cpu")):
        tensors = [values(rank, size) for size in SIZES]
        with manager(device=device):
            for tensor in tensors:
                dist.all_reduce(tensor)
        for tensor in tensors:
            same(tensor, expected(ReduceOp.SUM, world, tensor.numel(), torch.float32))
        outputs = [torch.zeros(size * world) for size in SIZES]
        with manager(device=device, async_ops=True) as handles:
            for output, size in zip(outputs, SIZES, strict=True):
                all_gather_single(output, values(rank, size))
        handles.wait()
        for output, size in zip(outputs, SIZES, strict=True):
            same(output, torch.cat([values(other, size) for other in range(world)]))
        outputs = [torch.zeros(size) for size in SIZES]
        with manager(device=device):
            for output, size in zip(outputs, SIZES, strict=True):
                reduce_scatter_single(output, values(rank, size * world))
        for output, size in zip(outputs, SIZES, strict=True):
            wanted = expected(ReduceOp.SUM, world, size * world, torch.float32)[size * rank : size * (rank + 1)]
            same(output, wanted)
    with manager(device=torch.device("cpu"), async_ops=True) as handles:
        first, second = values(rank, 10), values(rank, 20)
        dist.broadcast(first, 0, async_op=True)
        dist.broadcast(second, world - 1, async_op=True)
    handles.wait()
    same(first, values(0, 10))
    same(second, values(world - 1, 20))
    lists = [[torch.zeros(3), torch.zeros(70_001)] for _ in range(world)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.all_gather_coalesced(lists, [values(rank, 3), values(rank, 70_001)])
    for other in range(world):
        same(lists[other][0], values(other, 3))
        same(lists[other][1], values(other, 70_001))


@check
def functional_collectives(rank: int, world: int) -> None:
    """torch's C++ calls the group, and waits for its handles."""
    functional, name = torch.ops._c10d_functional, dist.group.WORLD.group_name
    given = values(rank, 1000 * world)
    total = expected(ReduceOp.SUM, world, 1000 * world, torch.float32)
    same(functional.wait_tensor(functional.all_reduce(given, "sum", name)), total)
    several = functional.all_reduce_coalesced([given, given[:9]], "sum", name)
    same(functional.wait_tensor(several[0]), total)
    same(functional.wait_tensor(several[1]), total[:9])
    gathered = functional.all_gather_into_tensor(values(rank, 1000), world, name)
    same(functional.wait_tensor(gathered), torch.cat([values(other, 1000) for other in range(world)]))
    part = functional.reduce_scatter_tensor(given, "sum", world, name)
    same(functional.wait_tensor(part), total[1000 * rank : 1000 * (rank + 1)])
    rows = [1000] * world
    exchanged = functional.wait_tensor(functional.all_to_all_single(given, rows, rows, name))
    same(exchanged, torch.cat([values(other, 1000 * world)[1000 * rank : 1000 * (rank + 1)] for other in range(world)]))
    same(functional.wait_tensor(functional.broadcast(given, world - 1, name)), values(world - 1, 1000 * world))


@check
def data_parallel(rank: int, world: int) -> None:
    """DistributedDataParallel's reducer, in C++, takes the futures of its handles."""
    if world > 2:
        return  # importing it takes each rank seconds
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 300), torch.nn.ReLU(), torch.nn.Linear(300, 4))
    plain = torch.nn.Sequential(torch.nn.Linear(16, 300), torch.nn.ReLU(), torch.nn.Linear(300, 4))
    plain.load_state_dict(model.state_dict())
    parallel = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.005)
    batches = [values(other, 16 * 4).view(4, 16) for other in range(world)]
    for _ in range(3):
        parallel.zero_grad()
        parallel(batches[rank]).square().mean().backward()
        plain.zero_grad()
        (sum(plain(batch).square().mean() for batch in batches) / world).backward()
        for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
            assert torch.allclose(mine.grad, theirs.grad, atol=1e-6)


@check
def the_group_itself(rank: int, world: int) -> None:
    group = dist.group.WORLD
    assert dist.get_backend() == "mpi4py" == group.name()
    assert (dist.get_rank(), dist.get_world_size()) == (mpi().COMM_WORLD.rank, mpi().COMM_WORLD.size)
    assert mpi_transport.register() == "mpi4py"
    group.allreduce(torch.ones(1)).wait()  # the short forms that torch's own code uses
    group.barrier().wait()


@check
def refusals(rank: int, world: int) -> None:
    """Before anything is sent: each rank alone."""
    refused(ValueError, "carries CPU tensors only", lambda: dist.all_reduce(torch.ones(2, device="meta")))
    refused(ValueError, "to_dense()", lambda: dist.all_reduce(torch.ones(2).to_sparse()))
    refused(ValueError, "BAND for torch.float32", lambda: dist.all_reduce(torch.ones(2), ReduceOp.BAND))
    refused(ValueError, "shared equally", lambda: dist.all_to_all_single(torch.ones(world + 1), torch.ones(world + 1)))
    refused(ValueError, "all_gather: ", lambda: all_gather_single(torch.ones(world + 1), torch.ones(1)))
    refused(ValueError, "reduce_scatter: ", lambda: reduce_scatter_single(torch.ones(1), torch.ones(world + 1)))
    refused(ValueError, "as large as its output", lambda: reduce_scatter_single(torch.ones(2), torch.ones(world)))
    refused(
        ValueError, "splits", lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [9] * world, [1] * world)
    )
    scaled = dist._make_nccl_premul_sum(2.0)
    refused(ValueError, "reduces with SUM", lambda: dist.all_reduce(torch.ones(2), scaled))
    gone = dist.new_group(list(range(world)))
    dist.destroy_process_group(gone)
    refused(RuntimeError, "was shut down", lambda: gone.allreduce([torch.ones(1)]))
    # The name `mpi` is torch's own, and its wheels have nothing behind it.
    refused(RuntimeError, "MPI built in", lambda: dist.new_group(list(range(world)), backend="mpi"))


@check
def sizes_that_differ(rank: int, world: int) -> None:
    """A peer that passes less is an error, not silence."""
    group = dist.new_group(list(range(world)), timeout=datetime.timedelta(seconds=5))
    size = 100 if rank == 0 else 50
    texts = ("expected", "runcat")  # too little, or too much
    try:
        dist.all_reduce(torch.ones(size), group=group)
    except dist.DistBackendError as error:
        assert any(text in str(error) for text in texts), error
    else:
        raise AssertionError("not noticed")


@check
def a_peer_that_does_not_come(rank: int, world: int) -> None:
    group = dist.new_group(list(range(world)), timeout=datetime.timedelta(seconds=1))
    if rank == 0:
        begin = time.monotonic()
        refused(dist.DistBackendError, "not over after 1 s", lambda: dist.all_reduce(torch.ones(9), group=group))
        assert time.monotonic() - begin < 20
        handle = dist.barrier(group, async_op=True)
        refused(
            dist.DistBackendError,
            "not over after 0.5 s",
            lambda: handle.wait(datetime.timedelta(seconds=0.5)),
        )
    mpi().COMM_WORLD.barrier()


def mpi() -> Any:
    from mpi4py import MPI

    return MPI


def main(result: Path) -> None:
    torch.set_num_threads(1)
    mpi_transport.register()
    dist.init_process_group("mpi4py", init_method="mpi://", timeout=datetime.timedelta(seconds=60))
    rank, world = dist.get_rank(), dist.get_world_size()
    errors: dict[str, list[str | None]] = {}
    times = {}
    for name, function in CHECKS.items():
        error = None
        begin = time.monotonic()
        try:
            function(rank, world)
        except Exception:
            error = traceback.format_exc()
        times[name] = time.monotonic() - begin
        errors[name] = mpi().COMM_WORLD.allgather(error)
        if any(errors[name]):
            break  # the ranks may be out of step now
    if rank == 0:
        result.write_text(json.dumps({"errors": errors, "seconds": times}), encoding="utf-8")
    if not any(any(each) for each in errors.values()):
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
