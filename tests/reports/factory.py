"""Synthetic records: one maker for single records, and one for whole lanes that look like real ones."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

from conformance.model.record import GpuInfo, Host, KnownIssueText, Provenance, RankRecord, Record, RuleText
from conformance.model.run_header import RunHeader
from conformance.model.verdict import Verdict

COMMIT = "5f3c9f0c1de8f0d8f3a5b1c2d3e4f5a6b7c8d9e0"
STARTED = datetime.datetime(2026, 3, 1, 2, 0, tzinfo=datetime.UTC)

RULES = {
    "ZERO-01": RuleText(
        id="ZERO-01",
        text="Stages 0 to 3 follow the same trajectory as one plain PyTorch process on the same global batches.",
        source="https://www.deepspeed.ai/tutorials/zero/",
    ),
    "INIT-01": RuleText(
        id="INIT-01", text="Leaving out args is the same as args=None.", source="deepspeed/__init__.py, initialize"
    ),
    "INIT-13": RuleText(
        id="INIT-13",
        text="args.local_rank may be None or -1; one that differs from LOCAL_RANK is refused.",
        source="deepspeed/__init__.py, _verify_local_rank",
    ),
    "CKPT-07": RuleText(
        id="CKPT-07",
        text="With the same world size, fp32 and bf16 resume bit for bit in stages 0 to 3.",
        source="https://deepspeed.readthedocs.io/en/latest/model-checkpointing.html",
    ),
    "OFF-03": RuleText(
        id="OFF-03",
        text="Parameters of fp32 that are kept on NVMe keep their precision.",
        source="deepspeed/runtime/swap_tensor/partitioned_param_swapper.py",
    ),
}

LINUX = Host(
    host_class="ci-linux",
    os="linux",
    os_version="Debian GNU/Linux 12, kernel 6.1.0",
    machine="x86_64",
    cpu="AMD EPYC 7763",
    cpu_count=4,
    memory_bytes=16 << 30,
)
WINE = Host(
    host_class="ci-linux",
    os="windows",
    os_version="Windows 10 build 19043",
    machine="AMD64",
    cpu="AMD EPYC 7763",
    cpu_count=4,
    memory_bytes=16 << 30,
    wine="8.0",
)
GPU = Host(
    host_class="gpu-linux",
    os="linux",
    os_version="Ubuntu 24.04, kernel 6.8.0",
    machine="x86_64",
    cpu="Intel Xeon Platinum 8480",
    cpu_count=64,
    memory_bytes=512 << 30,
    gpus=(GpuInfo(name="NVIDIA H100 80GB", memory_bytes=80 << 30),) * 2,
)
PACKAGES = {"torch": "2.13.0+cpu", "deepspeed": "0.19.8", "mpi4py": "4.1.2", "numpy": "2.3.1"}


def provenance(run: str = "run-1", host: Host = LINUX, **changes: Any) -> Provenance:
    """Where a record came from; every field can be replaced."""
    fields: dict[str, Any] = {
        "run": run,
        "host": host,
        "python": "3.11.11",
        "packages": PACKAGES,
        "git_commit": COMMIT,
        "git_dirty": False,
        "environment": {"OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
    }
    return Provenance(**(fields | changes))


def record(cell: str = "zero/train[stage=2,dtype=bf16]", verdict: Verdict = Verdict.PASS, **changes: Any) -> Record:
    """One record; every field can be replaced."""
    suite, rest = cell.split("/", 1)
    case, _, axes = rest.rstrip("]").partition("[")
    parsed = dict(part.split("=", 1) for part in axes.split(",")) if axes else {}
    fields: dict[str, Any] = {
        "cell": cell,
        "suite": suite,
        "case": case,
        "axes": {name: int(value) if value.isdigit() else value for name, value in parsed.items()},
        "title": "Training follows the reference trajectory",
        "lane": "linux_gloo",
        "launcher": "env",
        "transport": "gloo",
        "stack": "stable",
        "integration": "reference",
        "verdict": verdict,
        "reason": "" if verdict is Verdict.PASS else "loss at step 3: found 0.52, expected 0.41 ± 3e-7",
        "rules": (RULES["ZERO-01"],),
        "started": STARTED.isoformat(),
        "seconds": 0.71,
        "scenario_seconds": 0.55,
        "rank_mode": "forked",
        "repeat": f"nox -s linux_gloo -- --cell '{cell}'",
        "provenance": provenance(),
    }
    return Record(**(fields | changes))


def header(planned: Sequence[str] = (), **changes: Any) -> RunHeader:
    """One run header; every field can be replaced."""
    fields: dict[str, Any] = {
        "run": "run-1",
        "lane": "linux_gloo",
        "launcher": "env",
        "transport": "gloo",
        "stack": "stable",
        "integration": "reference",
        "planned": tuple(planned),
        "started": STARTED.isoformat(),
        "finished": (STARTED + datetime.timedelta(minutes=4)).isoformat(),
        "provenance": provenance(),
    }
    return RunHeader(**(fields | changes))


EVIL_LOG = "epoch 1\n</script><script>window.pwned = 1</script><!-- \u2028 ${x} {{ 7 * 7 }} & <b>bold</b>\n"

STACKS = """Thread 0x00007f2a1c7fe640 (most recent call first):
  File "torch/distributed/distributed_c10d.py", line 4811 in barrier
  File "deepspeed/comm/torch.py", line 401 in barrier
  File "deepspeed/runtime/engine.py", line 3190 in save_checkpoint
  File "conformance/suites/checkpoint.py", line 42 in save
"""


def cell_ids(size: int | None = None) -> list[str]:
    """Cells as the suites have them; with `size`, so many of them, further seeds standing in for further axes."""
    ids = [
        f"initialize/{case}"
        for case in (
            "args_omitted",
            "args_none",
            "model_missing",
            "config_missing",
            "local_rank_mismatch",
            "mpu_asserts",
        )
    ]
    ids += [
        f"zero/train[stage={stage},dtype={dtype},world={world},accumulation={accumulation},clipping={clipping}]"
        for stage, dtype, world, accumulation, clipping in itertools.product(
            range(4), ("fp32", "bf16", "fp16"), (1, 2), (1, 2), ("off", "on")
        )
    ]
    ids += [f"checkpoint/resume[stage={stage},dtype={dtype}]" for stage in range(4) for dtype in ("fp32", "bf16")]
    ids += [f"offload/train[stage={stage},optimizer={device}]" for stage in (2, 3) for device in ("cpu", "nvme")]
    for seed in itertools.count(1):
        if size is None or len(ids) >= size:
            break
        ids += [
            f"collectives/{name}[dtype={dtype},seed={seed}]"
            for name in ("all_reduce", "all_gather", "broadcast")
            for dtype in ("fp32", "bf16")
        ]
    return ids[:size]


LANES = {
    "linux_gloo": ("env", "gloo", LINUX, "torch 2.13.0+cpu"),
    "linux_mpi": ("mpi", "gloo", LINUX, ""),
    "linux_nccl": ("env", "nccl", GPU, ""),
    "windows_gloo": ("env", "gloo", WINE, ""),
    "windows_mpi": ("mpi", "mpi", WINE, ""),
}


def lane(
    name: str = "linux_gloo",
    ids: Sequence[str] | None = None,
    *,
    run: str | None = None,
    started: datetime.datetime = STARTED,
    seed: int = 1,
    **changes: Any,
) -> list[Record]:
    """A whole lane's records with every kind of verdict in it, the same for the same seed."""
    launcher, transport, host, _ = LANES[name]
    chance = random.Random(f"{name}/{seed}")
    where = provenance(run or f"{name}-{seed}", host)
    result = []
    for number, cell in enumerate(ids if ids is not None else cell_ids()):
        fields: dict[str, Any] = {
            "lane": name,
            "launcher": launcher,
            "transport": transport,
            "started": (started + datetime.timedelta(seconds=number)).isoformat(),
            "provenance": where,
            "repeat": f"nox -s {name} -- --cell '{cell}'",
            "seconds": round(chance.uniform(0.3, 2.5), 3),
            "numbers": {
                "loss_error": chance.uniform(0, 3e-7),
                "loss_error_tolerance": 4.8e-7,
                "weight_error": chance.uniform(0, 1e-7),
                "weight_error_tolerance": 3e-7,
            },
            "observations": {
                "losses": [round(chance.random(), 9) for _ in range(6)],
                "stage": 2,
                "optimizer": "DeepSpeedZeroOptimizer",
                "weights": {
                    f"{layer}.weight": f"float32 array of shape (32, 32), sha256 {chance.getrandbits(48):012x}"
                    for layer in range(3)
                },
            },
            "ranks": tuple(
                RankRecord(step=0, rank=rank, status="returned", exit_code=0, seconds=0.5) for rank in range(2)
            ),
        }
        fields |= _special(name, cell, chance) | changes
        result.append(record(cell, **fields))
    return result


def _special(name: str, cell: str, chance: random.Random) -> dict[str, Any]:
    """What sets some cells of a lane apart from a plain PASS."""
    log = "".join(
        f"[rank {n % 2}] {chance.getrandbits(64):016x} step {n} loss {chance.random():.6f}\n" for n in range(60)
    )
    if cell.startswith("initialize/"):
        rules = (RULES["INIT-01"],) if "args" in cell else (RULES["INIT-13"],)
        fields: dict[str, Any] = {
            "rules": rules,
            "title": "Initialize " + cell.split("/")[1].replace("_", " "),
            "numbers": {},
        }
        if cell.endswith("mpu_asserts") and name == "linux_mpi":
            fields |= {"verdict": Verdict.ERROR, "reason": "mpiexec could not be started: out of slots", "log": log}
        return fields
    if "dtype=fp16" in cell and "nccl" not in name:
        return {
            "verdict": Verdict.UNSUPPORTED,
            "reason": "refused as the contract says: ValueError: Type fp16 is not supported on your device.",
            "observations": {},
            "numbers": {},
        }
    if cell.startswith("checkpoint/"):
        fields = {"rules": (RULES["CKPT-07"],), "title": "A resumed run goes on bit for bit from a different seed"}
        if "stage=3" in cell and name == "windows_mpi":
            fields |= {
                "verdict": Verdict.TIMEOUT,
                "reason": "step 1 was still running at its deadline of 60 s: ranks 0, 1",
                "stacks": STACKS * 2,
                "log": log + EVIL_LOG,
                "seconds": 61.2,
                "ranks": tuple(RankRecord(step=1, rank=rank, status="timed out", seconds=60.0) for rank in range(2)),
            }
        return fields
    if cell.startswith("offload/"):
        fields = {
            "rules": (RULES["OFF-03"],),
            "title": "Training with the optimizer kept elsewhere follows the reference",
        }
        if "optimizer=nvme" in cell and "windows" in name:
            fields |= {
                "verdict": Verdict.NOT_RUN,
                "reason": "needs libaio (not on Windows)",
                "remedy": "run the NVMe cells on a Linux lane",
                "numbers": {},
                "observations": {},
                "ranks": (),
                "rank_mode": "",
            }
        elif "optimizer=nvme" in cell and "stage=3" in cell:
            fields |= {
                "verdict": Verdict.XFAIL,
                "reason": "weights differ from the reference by 0.08, allowed 3e-7",
                "numbers": {"weight_error": 0.08, "weight_error_tolerance": 3e-7},
                "known_issue": KnownIssueText(
                    id="nvme-fp32",
                    title="fp32 parameters on NVMe are stored as bf16",
                    reference="https://github.com/deepspeedai/DeepSpeed/issues/1",
                    explanation="The swap buffer takes its type from the device's preferred type.",
                ),
                "log": log,
            }
        return fields
    if cell.startswith("zero/") and "stage=3" in cell and "clipping=on" in cell and name == "windows_gloo":
        return {
            "verdict": Verdict.FAIL,
            "numbers": {"loss_error": 0.11, "loss_error_tolerance": 4.8e-7},
            "log": log + EVIL_LOG,
        }
    if cell == "zero/train[stage=1,dtype=bf16,world=2,accumulation=2,clipping=on]" and name == "linux_mpi":
        return {
            "verdict": Verdict.CRASH,
            "reason": "rank 1 died: SIGSEGV",
            "log": log,
            "ranks": (
                RankRecord(step=0, rank=0, status="stopped", exit_code=-15, seconds=1.0),
                RankRecord(step=0, rank=1, status="died", exit_code=-11, seconds=0.4),
            ),
        }
    return {}


def lanes(size: int | None = None) -> Iterator[Record]:
    """All five lanes."""
    for name in LANES:
        yield from lane(name, cell_ids(size))


def headers(size: int | None = None) -> list[RunHeader]:
    """The headers of `lanes`; windows_mpi was interrupted, with a few more cells planned than it reported."""
    result = []
    for name, (launcher, transport, host, _) in LANES.items():
        planned = cell_ids(size)
        fields: dict[str, Any] = {"provenance": provenance(f"{name}-1", host)}
        if name == "windows_mpi":
            planned = [*planned, *(f"launch/mpiexec[world={world}]" for world in (2, 4))]
            fields |= {"interrupted": True, "finished": None, "note": "stopped from the keyboard"}
        result.append(header(planned, run=f"{name}-1", lane=name, launcher=launcher, transport=transport, **fields))
    return result
