"""The cells of suite collectives in short."""

from __future__ import annotations

from conformance.model.setting import Axes
from conformance.repro.forms import Call, Repro, Short
from conformance.repro.snippets import lines

CALLS = {
    # by operation: the call, and what each rank must end with
    "all_reduce": ("deepspeed.comm.all_reduce(given)", "sum(brought)"),
    "inference_all_reduce": ("deepspeed.comm.inference_all_reduce(given)", "sum(brought)"),
    "reduce": ("deepspeed.comm.reduce(given, RANKS - 1)", "sum(brought) if rank == RANKS - 1 else given"),
    "broadcast": ("deepspeed.comm.broadcast(given, RANKS - 1)", "brought[-1]"),
}
DTYPES = {"fp32": "torch.float32", "bf16": "torch.bfloat16", "int64": "torch.int64"}
LACKS = '("contiguous", "not supported", "Unsupported")'


def operation(axes: Axes) -> Repro | None:
    """An operation on a tensor of an odd length, or on a column of a matrix."""
    name, dtype, shape = str(axes["operation"]), str(axes["dtype"]), str(axes["shape"])
    if name not in CALLS or dtype not in DTYPES or shape not in ("odd", "strided") or axes["members"] != "world":
        return None
    made, expected = CALLS[name]
    bring = f"[((torch.arange(12) * 3 + each * 5) % 4).to({DTYPES[dtype]}) for each in range(RANKS)]"
    give = "given = brought[rank].clone()"
    if shape == "strided":
        give = """
            matrix = torch.zeros(12, 2)
            given = matrix[:, 0]  # a column: every second element of what lies in memory
            given.copy_(brought[rank])
        """
    body = lines(
        "deepspeed.init_distributed(verbose=False)",
        f"brought = {bring}",
        give,
        f"""
        try:
            {made}
        except (RuntimeError, ValueError) as refusal:  # as NCCL does with such a tensor
            assert any(word in str(refusal) for word in {LACKS}), refusal
            return
        expected = {expected}
        told = f"{name} gave {{given.tolist()}}, expected {{expected.tolist()}}"
        assert given.equal(expected), f"rank {{rank}}: {{told}}"
        """,
    )
    ranks = int(axes["world"])
    return Call(body=body, ranks=ranks, functions=f"RANKS = {ranks}")


def objects(axes: Axes) -> Repro | None:
    """Any object of every rank."""
    body = """
        deepspeed.init_distributed(verbose=False)
        ranks = torch.distributed.get_world_size()
        found = [None] * ranks
        deepspeed.comm.all_gather_object(found, {"rank": rank})
        assert found == [{"rank": each} for each in range(ranks)], f"rank {rank} got {found}"
    """
    return Call(body=body, ranks=int(axes["world"]))


SHORT: dict[str, dict[str, Short]] = {"deepspeed": {"operation": operation, "objects": objects}}
"""By the names of integrations and cases."""
