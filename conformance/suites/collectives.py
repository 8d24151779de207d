"""Collectives: every operation that DeepSpeed's communication layer offers, by value."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.model.case import case
from conformance.model.setting import Axes, Observation, Setting
from conformance.model.verdict import Unsupported
from conformance.suites.common import checks
from conformance.suites.common.resuming import attempt

Array = NDArray[Any]

DTYPES = {
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "int64": "int64",
    "int32": "int32",
    "bool": "bool",
    "uint8": "uint8",
}
LENGTHS = {"odd": 7, "one": 1, "empty": 0, "strided": 12, "large": 1 << 24}
"""Elements a rank; `large` is 64 MiB of float32, and holds the values of its first PERIOD elements again and again."""

PERIOD = 4096

MEMBERS = {"world": None, "subgroup": (0, 2), "reversed": (2, 0)}
"""Which ranks take part: all, or those of a new group."""

LACKS = (
    r"[Uu]nsupported|[Nn]ot supported|does not support|[Ii]nvalid scalar type|not implemented|[Ii]nvalid reduction|"
    r"does not implement|Cannot use ReduceOp|only supports|(must|has to) be contiguous|non-contiguous|invalid data type"
    r"|result type Float can't be cast"
)
"""What a transport says that lacks an operation, a dtype or a layout; anything else is an error."""


# --- values -------------------------------------------------------------------------------------------------------


def values(rank: int, axes: Axes) -> Array:
    """What a rank brings: small whole numbers, so that sums and products are exact in every dtype; of a large tensor
    one period."""
    length = min(LENGTHS[str(axes["shape"])], PERIOD)
    counted = (np.arange(length) * 3 + rank * 5) % 4
    if axes["dtype"] == "bool":
        return counted > 1
    if axes.get("reduction") == "PRODUCT":
        counted = counted % 2 + 1
    return counted.astype(np.float64 if axes["dtype"] in ("fp32", "bf16", "fp16") else np.int64)


REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "SUM": lambda stacked: np.asarray(stacked.any(0)) if stacked.dtype == bool else stacked.sum(0),
    "AVG": lambda stacked: stacked.mean(0) if stacked.dtype == np.float64 else stacked.sum(0) // len(stacked),
    "PRODUCT": lambda stacked: np.asarray(stacked.all(0)) if stacked.dtype == bool else stacked.prod(0),
    "MIN": lambda stacked: stacked.min(0),
    "MAX": lambda stacked: stacked.max(0),
    "BAND": lambda stacked: np.bitwise_and.reduce(stacked, 0),
    "BOR": lambda stacked: np.bitwise_or.reduce(stacked, 0),
    "BXOR": lambda stacked: np.bitwise_xor.reduce(stacked, 0),
}


def expected(
    operation: str, place: int, inputs: Sequence[Array], reduce: Callable[[Array], Array]
) -> list[Array] | None:
    """What the member at `place` must end with, given what each member brings; None where it gets nothing.

    Operations that hand out parts send each member the input, moved on by the member's number: see `Call.parts`.
    """
    members = len(inputs)
    parts = [[_part(array, other) for other in range(members)] for array in inputs]
    before, root = (place - 1) % members, members - 1
    gathered = list(inputs)
    outcomes: dict[str, Callable[[], list[Array] | None]] = {
        "all_reduce": lambda: [reduce(np.stack(inputs))],
        "inference_all_reduce": lambda: [reduce(np.stack(inputs))],
        "all_reduce_coalesced": lambda: [
            reduce(np.stack(inputs)),
            reduce(np.stack([_part(each, 1) for each in inputs])),
        ],
        "reduce": lambda: [reduce(np.stack(inputs))] if place == root else None,
        "broadcast": lambda: [inputs[root]],
        "gather": lambda: gathered if place == root else None,
        "scatter": lambda: [parts[root][place]],
        "all_gather": lambda: gathered,
        "all_gather_into_tensor": lambda: [np.concatenate(gathered)],
        "allgather_fn": lambda: [np.concatenate(gathered)],
        "all_gather_coalesced": lambda: [np.concatenate(gathered), np.concatenate([_part(each, 1) for each in inputs])],
        "reduce_scatter": lambda: [reduce(np.stack([part[place] for part in parts]))],
        "reduce_scatter_tensor": lambda: [reduce(np.stack([part[place] for part in parts]))],
        "reduce_scatter_fn": lambda: [reduce(np.stack([part[place] for part in parts]))],
        "all_to_all": lambda: [part[place] for part in parts],
        "all_to_all_single": lambda: [np.concatenate([part[place] for part in parts])],
        "all_to_all_uneven": lambda: [
            np.concatenate([part[place][: max(0, len(part[place]) - place)] for part in parts])
        ],
        "send_recv": lambda: [inputs[before]],
        "isend_irecv": lambda: [inputs[before]],
        "batch_isend_irecv": lambda: [inputs[before]],
    }
    return outcomes[operation]()


def _part(array: Array, member: int) -> Array:
    """The part of a member's input that is for `member`: the input, moved on by `member` elements."""
    return np.roll(array, member)


# --- the operations -----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Call:
    """One operation as one rank calls it."""

    comm: Any
    tensor: Any
    group: Any
    ranks: Sequence[int]
    place: int
    options: dict[str, Any]

    @property
    def root(self) -> int:
        """The global rank of the last member, which is the root of what has one: rank 0 is everyone's default."""
        return self.ranks[-1]

    def parts(self) -> list[Any]:
        """What this member sends to each member."""
        return [self.tensor.roll(member) for member in range(len(self.ranks))]

    def like(self, count: int = 1) -> Any:
        """An empty tensor for `count` inputs."""
        return self.tensor.new_empty(count * self.tensor.numel())

    def finish(self, work: Any) -> None:
        """Wait for the operation where it was asked to be asynchronous: then it must have returned a handle."""
        if self.options.get("async_op"):
            assert work is not None, "async_op=True returned no handle"
            work.wait()


def _all_reduce(call: Call) -> list[Any]:
    call.finish(call.comm.all_reduce(call.tensor, group=call.group, **call.options))
    return [call.tensor]


def _inference_all_reduce(call: Call) -> list[Any]:
    call.comm.inference_all_reduce(call.tensor, group=call.group, **_without_async(call))
    return [call.tensor]


def _all_reduce_coalesced(call: Call) -> list[Any]:
    tensors = [call.tensor, call.tensor.roll(1)]
    call.finish(call.comm.all_reduce_coalesced(tensors, group=call.group, **call.options))
    return tensors


def _reduce(call: Call) -> list[Any]:
    call.finish(call.comm.reduce(call.tensor, call.root, group=call.group, **call.options))
    return [call.tensor]


def _broadcast(call: Call) -> list[Any]:
    call.finish(call.comm.broadcast(call.tensor, call.root, group=call.group, **call.options))
    return [call.tensor]


def _gather(call: Call) -> list[Any]:
    outputs = [call.like() for _ in call.ranks] if call.place == len(call.ranks) - 1 else None
    call.finish(call.comm.gather(call.tensor, outputs, dst=call.root, group=call.group, **call.options))
    return outputs or []


def _scatter(call: Call) -> list[Any]:
    output = call.like()
    inputs = call.parts() if call.place == len(call.ranks) - 1 else None
    call.finish(call.comm.scatter(output, inputs, src=call.root, group=call.group, **call.options))
    return [output]


def _all_gather(call: Call) -> list[Any]:
    outputs = [call.like() for _ in call.ranks]
    call.finish(call.comm.all_gather(outputs, call.tensor, group=call.group, **call.options))
    return outputs


def _all_gather_into_tensor(call: Call, function: str) -> list[Any]:
    output = call.like(len(call.ranks))
    call.finish(getattr(call.comm, function)(output, call.tensor, group=call.group, **call.options))
    return [output]


def _all_gather_coalesced(call: Call) -> list[Any]:
    outputs = [call.like(len(call.ranks)), call.like(len(call.ranks))]
    inputs = [call.tensor, call.tensor.roll(1)]
    call.finish(call.comm.all_gather_coalesced(outputs, inputs, group=call.group, **call.options))
    return outputs


def _reduce_scatter(call: Call) -> list[Any]:
    output = call.like()
    call.finish(call.comm.reduce_scatter(output, call.parts(), group=call.group, **call.options))
    return [output]


def _reduce_scatter_tensor(call: Call, function: str) -> list[Any]:
    import torch

    output = call.like()
    call.finish(getattr(call.comm, function)(output, torch.cat(call.parts()), group=call.group, **call.options))
    return [output]


def _all_to_all(call: Call) -> list[Any]:
    outputs = [call.like() for _ in call.ranks]
    call.finish(call.comm.all_to_all(outputs, call.parts(), group=call.group, **call.options))
    return outputs


def _all_to_all_single(call: Call) -> list[Any]:
    import torch

    output = call.like(len(call.ranks))
    call.finish(call.comm.all_to_all_single(output, torch.cat(call.parts()), group=call.group, **call.options))
    return [output]


def _all_to_all_uneven(call: Call) -> list[Any]:
    """Member m gets m elements less from each than member 0."""
    import torch

    parts = [part[: max(0, len(part) - member)] for member, part in enumerate(call.parts())]
    mine = len(parts[call.place])
    output = call.tensor.new_empty(mine * len(parts))
    sent, received = [len(part) for part in parts], [mine] * len(parts)
    work = call.comm.all_to_all_single(
        output,
        torch.cat(parts),
        output_split_sizes=received,
        input_split_sizes=sent,
        group=call.group,
        **call.options,
    )
    call.finish(work)
    return [output]


def _send_recv(call: Call) -> list[Any]:
    """To the next member and from the one before; even members send first."""
    output = call.like()
    after, before = _neighbours(call)
    if call.place % 2 == 0:
        call.comm.send(call.tensor, after, group=call.group)
        call.comm.recv(output, before, group=call.group)
    else:
        call.comm.recv(output, before, group=call.group)
        call.comm.send(call.tensor, after, group=call.group)
    return [output]


def _isend_irecv(call: Call) -> list[Any]:
    output = call.like()
    after, before = _neighbours(call)
    works = [call.comm.isend(call.tensor, after, group=call.group), call.comm.irecv(output, before, group=call.group)]
    for work in works:
        work.wait()
    return [output]


def _batch_isend_irecv(call: Call) -> list[Any]:
    output = call.like()
    after, before = _neighbours(call)
    pairs = [
        call.comm.P2POp(call.comm.isend, call.tensor, after, group=call.group),
        call.comm.P2POp(call.comm.irecv, output, before, group=call.group),
    ]
    for work in call.comm.batch_isend_irecv(pairs):
        work.wait()
    return [output]


def _neighbours(call: Call) -> tuple[int, int]:
    count = len(call.ranks)
    return call.ranks[(call.place + 1) % count], call.ranks[(call.place - 1) % count]


def _without_async(call: Call) -> dict[str, Any]:
    return {name: value for name, value in call.options.items() if name != "async_op"}


OPERATIONS: dict[str, Callable[[Call], list[Any]]] = {
    "all_reduce": _all_reduce,
    "inference_all_reduce": _inference_all_reduce,
    "all_reduce_coalesced": _all_reduce_coalesced,
    "reduce": _reduce,
    "broadcast": _broadcast,
    "gather": _gather,
    "scatter": _scatter,
    "all_gather": _all_gather,
    "all_gather_into_tensor": functools.partial(_all_gather_into_tensor, function="all_gather_into_tensor"),
    "allgather_fn": functools.partial(_all_gather_into_tensor, function="allgather_fn"),
    "all_gather_coalesced": _all_gather_coalesced,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_tensor": functools.partial(_reduce_scatter_tensor, function="reduce_scatter_tensor"),
    "reduce_scatter_fn": functools.partial(_reduce_scatter_tensor, function="reduce_scatter_fn"),
    "all_to_all": _all_to_all,
    "all_to_all_single": _all_to_all_single,
    "all_to_all_uneven": _all_to_all_uneven,
    "send_recv": _send_recv,
    "isend_irecv": _isend_irecv,
    "batch_isend_irecv": _batch_isend_irecv,
}


# --- scenario and check -------------------------------------------------------------------------------------------


def connect(setting: Setting) -> Any:
    """Start torch.distributed as the integration under test does, and give DeepSpeed's communication layer."""
    import deepspeed.comm
    import torch
    from deepspeed.accelerator import get_accelerator

    if setting.integration == "deepspeed":
        deepspeed.init_distributed(dist_backend=setting.transport)
    else:
        from conformance.reference import start

        start(transport=setting.transport)
    if setting.device == "cuda":
        get_accelerator().set_device(deepspeed.comm.get_local_rank())
    torch.distributed.barrier()
    return deepspeed.comm


def disconnect(setting: Setting) -> None:
    """End torch.distributed."""
    if setting.integration == "deepspeed":
        import deepspeed.comm

        deepspeed.comm.destroy_process_group()
    else:
        from conformance.reference import shutdown

        shutdown()


def operate(setting: Setting) -> Observation:
    """Call the operation once and tell what came out."""
    import torch
    from deepspeed.accelerator import get_accelerator

    comm = connect(setting)
    rank, world = comm.get_rank(), comm.get_world_size()
    chosen = MEMBERS[setting.get("members", "world")]
    ranks = tuple(range(world)) if chosen is None else chosen
    group = None if chosen is None else comm.new_group(ranks=list(ranks))
    told: Observation = {"rank": rank, "world": world, "transport": torch.distributed.get_backend()}
    if rank in ranks:
        place = rank if group is None else comm.get_rank(group=group)
        told["place"] = place
        device = get_accelerator().current_device_name() if setting.device == "cuda" else "cpu"
        tensor = (
            torch.from_numpy(values(rank, setting.parameters)).to(getattr(torch, DTYPES[setting["dtype"]])).to(device)
        )
        if setting["shape"] == "large":
            tensor = tensor.repeat(LENGTHS["large"] // PERIOD)
        if setting["shape"] == "strided":
            tensor = torch.stack([tensor, tensor], dim=1)[:, 0]
        options: dict[str, Any] = {}
        if reduction := setting.get("reduction"):
            options["op"] = getattr(comm.ReduceOp, reduction)
        if setting.get("handle"):
            options["async_op"] = True
        # Ranks in the order of the group's own numbering, which need not be the order in which they were named.
        order = ranks if group is None else tuple(comm.get_all_ranks_from_group(group))
        told["order"] = list(order)
        call = Call(comm, tensor, group, order, place, options)
        tried = attempt(lambda: OPERATIONS[setting["operation"]](call))
        if tried.error is not None:
            return {**told, "refused": tried.error}
        told["results"] = [_told(result, setting["shape"]) for result in tried.result]
    torch.distributed.barrier()
    disconnect(setting)
    return told


def _told(tensor: Any, shape: str) -> Any:
    """A result as plain data; of a large one the period of each member's part, or None if it is not repeated."""
    import torch

    if shape == "large":
        parts = tensor.view(-1, LENGTHS["large"] // PERIOD, PERIOD)
        if not torch.equal(parts, parts[:, :1].expand_as(parts)):
            return None
        tensor = parts[:, 0].flatten()
    return (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()


def every_member_has_its_values(axes: Axes, observations: list[Observation]) -> None:
    """Every member gets exactly what the operation promises, or every member is told that the transport lacks it."""
    checks.world_is(observations, int(axes["world"]))
    members = [each for each in observations if "place" in each]
    refused = [each.get("refused") for each in members]
    if any(refused):
        ranks = [each["rank"] for each in members]
        raise Unsupported(checks.every_rank_raised(refused, LACKS, str(axes["operation"]), ranks))
    order = members[0]["order"]
    inputs = [values(rank, axes) for rank in order]
    reduce = REDUCTIONS[str(axes.get("reduction", "SUM"))]
    for each in members:
        assert order[each["place"]] == each["rank"], (
            f"rank {each['rank']} is number {each['place']} of the group {order}"
        )
        wanted = expected(str(axes["operation"]), each["place"], inputs, reduce)
        if wanted is not None:
            _equal(each["rank"], each["results"], wanted)


def _equal(rank: int, results: list[Any], wanted: list[Array]) -> None:
    assert len(results) == len(wanted), f"rank {rank} got {len(results)} tensors, expected {len(wanted)}"
    for number, (found, right) in enumerate(zip(results, wanted, strict=True)):
        assert found is not None, f"rank {rank}: tensor {number} does not repeat its first {PERIOD} elements"
        same = np.array_equal(np.asarray(found), right)
        assert same, f"rank {rank}: tensor {number} is {np.asarray(found)}, expected {right}"


@case("collectives/operation", operate)
def check_operation(axes: Axes, observations: list[Observation]) -> None:
    """Every operation, in every dtype and shape."""
    every_member_has_its_values(axes, observations)


@case("collectives/reduction", operate)
def check_reduction(axes: Axes, observations: list[Observation]) -> None:
    """Every reduction, in every dtype."""
    every_member_has_its_values(axes, observations)


@case("collectives/handle", operate)
def check_handle(axes: Axes, observations: list[Observation]) -> None:
    """Every operation that can be asynchronous: the scenario fails where no handle is returned."""
    every_member_has_its_values(axes, observations)


@case("collectives/group", operate)
def check_group(axes: Axes, observations: list[Observation]) -> None:
    """Operations in a group that leaves rank 1 out, named in either order."""
    every_member_has_its_values(axes, observations)
    assert [each["rank"] for each in observations if "place" in each] == [0, 2], "others than ranks 0 and 2 took part"


@case("collectives/four", operate)
def check_four(axes: Axes, observations: list[Observation]) -> None:
    """Operations among four ranks."""
    every_member_has_its_values(axes, observations)


# --- objects, barriers, coalesced reduction ------------------------------------------------------------------------

OBJECTS: list[Any] = [{"rank": 0, "text": "Grüße"}, [1, 2, (3, None)], "x" * 5000, 4]


def exchange_objects(setting: Setting) -> Observation:
    """Gather one object a rank, and broadcast objects from the last rank."""
    comm = connect(setting)
    rank, world = comm.get_rank(), comm.get_world_size()
    gathered: list[Any] = [None] * world
    first = attempt(lambda: comm.all_gather_object(gathered, OBJECTS[rank]))
    sent = [OBJECTS[:2]] if rank == world - 1 else [None]
    second = attempt(lambda: comm.broadcast_object_list(sent, world - 1))
    disconnect(setting)
    return {
        "rank": rank,
        "world": world,
        "gathered": repr(gathered),
        "broadcast": repr(sent),
        "refused": first.error or second.error,
    }


@case("collectives/objects", exchange_objects)
def check_objects(axes: Axes, observations: list[Observation]) -> None:
    """Objects of any kind and size arrive in every rank as they were."""
    world = int(axes["world"])
    checks.world_is(observations, world)
    for rank, each in enumerate(observations):
        assert each["refused"] is None, f"rank {rank}: {each['refused']}"
        assert each["gathered"] == repr(OBJECTS[:world]), f"rank {rank}: gathered {each['gathered'][:300]}"
        assert each["broadcast"] == repr([OBJECTS[:2]]), f"rank {rank}: broadcast gave {each['broadcast'][:300]}"


def meet(setting: Setting) -> Observation:
    """Meet at a barrier to which one rank comes late."""
    import datetime
    import time

    comm = connect(setting)
    rank, world = comm.get_rank(), comm.get_world_size()
    if rank == world - 1:
        time.sleep(0.4)
    arrived = time.monotonic()
    if setting["kind"] == "monitored":
        tried = attempt(lambda: comm.monitored_barrier(timeout=datetime.timedelta(seconds=20)))
    else:
        tried = attempt(comm.barrier)
    left = time.monotonic()
    disconnect(setting)
    return {"rank": rank, "world": world, "arrived": arrived, "left": left, "refused": tried.error}


@case("collectives/barrier", meet)
def check_barrier(axes: Axes, observations: list[Observation]) -> None:
    """No rank leaves a barrier before the last one has come."""
    checks.world_is(observations, int(axes["world"]))
    refused = [each["refused"] for each in observations]
    if any(refused):
        raise Unsupported(checks.every_rank_raised(refused, LACKS + "|only implemented for", "the barrier"))
    last = max(each["arrived"] for each in observations)
    for rank, each in enumerate(observations):
        assert each["left"] >= last, (
            f"rank {rank} left the barrier {last - each['left']:.3f} s before the last one came"
        )


def reduce_coalesced(setting: Setting) -> Observation:
    """The coalesced reduce-scatter that ZeRO stage 3 averages its gradients with."""
    import torch
    from deepspeed.runtime.comm.coalesced_collectives import reduce_scatter_coalesced

    comm = connect(setting)
    rank, world = comm.get_rank(), comm.get_world_size()
    dtype = getattr(torch, DTYPES[setting["dtype"]])
    lengths = (7, 1, 16)
    tensors = [torch.arange(length).to(dtype) * (rank + 1) for length in lengths]
    results = reduce_scatter_coalesced(tensors, group=torch.distributed.group.WORLD)
    told = {"rank": rank, "world": world, "results": [each.float().numpy() for each in results]}
    disconnect(setting)
    return told


@case("collectives/reduce_scatter_coalesced", reduce_coalesced)
def check_reduce_scatter_coalesced(axes: Axes, observations: list[Observation]) -> None:
    """Each rank gets its share of the mean of every tensor, the last share shorter where the length does not divide."""
    world = int(axes["world"])
    checks.world_is(observations, world)
    mean = sum(range(1, world + 1)) / world
    for rank, each in enumerate(observations):
        for number, length in enumerate((7, 1, 16)):
            share = -(-length // world)
            right = (np.arange(length) * mean)[rank * share : (rank + 1) * share]
            found = np.asarray(each["results"][number])
            assert np.array_equal(found[: len(right)], right), (
                f"rank {rank}: tensor {number} is {found}, expected {right}"
            )
