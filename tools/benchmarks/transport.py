"""Collectives over MPI against gloo: bandwidth by operation and size, in the same ranks, turn by turn.

    python -m tools.benchmarks.transport [--world 2] [--rounds 15] [--sizes BYTES …] [--require RATIO] [--json F]

The MPI is that of `mpi_library.find`. A round times one call of each transport; its time is that of the slowest rank,
and the figures are medians over the rounds. Bandwidth is the size of the whole tensor (the input of all_reduce and
reduce_scatter, the output of all_gather) by time. Turns and medians keep a busy host from favouring either, but
absolute figures are worth something on an idle one only.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from conformance.hosts import mpi_library
from conformance.model.verdict import NotRun
from conformance.reference.errors import MpiError

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
TRANSPORTS = ("mpi4py", "gloo")
GOAL_BYTES = 4 * MIB
"""--require looks at this size and above: smaller ones measure latency."""
_DEADLINE_S = 900
_SMALL_ROUNDS = 4
"""Below GOAL_BYTES so many times the rounds: a call is short there, and its time scatters more."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One operation at one size: seconds a call, by transport."""

    operation: str
    nbytes: int
    seconds: dict[str, float]

    @property
    def ratio(self) -> float:
        """The bandwidth over MPI as a multiple of gloo's."""
        return self.seconds["gloo"] / self.seconds["mpi4py"]

    def row(self) -> str:
        bandwidths = [self.nbytes / self.seconds[transport] / MIB for transport in TRANSPORTS]
        size = f"{self.nbytes // MIB} MiB" if self.nbytes >= MIB else f"{self.nbytes // KIB} KiB"
        figures = "".join(f"{bandwidth:14.1f}" for bandwidth in bandwidths)
        return f"{self.operation:16}{size:>8}{figures}{self.ratio:9.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0; 1 if `--require` was not met; 2 if there is no MPI to measure, or its ranks failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.transport", description=__doc__)
    parser.add_argument("--world", type=int, default=2, help="ranks (2)")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each transport, operation and size (15)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="BYTES", help="4 KiB to 64 MiB")
    parser.add_argument("--require", type=float, metavar="RATIO", help="fail below this ratio at 4 MiB and above")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements there, too")
    parser.add_argument("--in-rank", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.in_rank is not None:
        measure(options.in_rank, options.rounds, options.sizes)
        return 0
    try:
        mpi = mpi_library.find()
        measurements = collect(mpi, options.world, options.rounds, options.sizes)
    except (NotRun, MpiError, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{mpi}, {options.world} ranks, {os.cpu_count()} processors, medians of {options.rounds} rounds or more")
    print(f"{'operation':16}{'size':>8}{'mpi4py MiB/s':>14}{'gloo MiB/s':>14}{'ratio':>9}")
    for measurement in measurements:
        print(measurement.row())
    if options.json is not None:
        found = [dataclasses.asdict(measurement) for measurement in measurements]
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0 if options.require is None else judge(measurements, options.require)


def judge(measurements: Sequence[Measurement], required: float) -> int:
    """1 if a large tensor travels slower over MPI than `required` times gloo's bandwidth, else 0."""
    slow = [each for each in measurements if each.nbytes >= GOAL_BYTES and each.ratio < required]
    for each in slow:
        print(f"{each.operation} of {each.nbytes // MIB} MiB: {each.ratio:.2f} of gloo, required {required:g}")
    return 1 if slow else 0


def collect(mpi: mpi_library.MpiLibrary, world: int, rounds: int, sizes: Sequence[int]) -> list[Measurement]:
    """Start the ranks, wait for them, and read what they measured.

    Raises:
        subprocess.SubprocessError: they failed, or were not over in time.
    """
    changes = mpi_library.environment(mpi, os.environ)
    environ = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        argv = [sys.executable, "-m", "mpi4py", "-m", __spec__.name if __spec__ else __name__]
        argv += ["--rounds", str(rounds), "--in-rank", str(result), "--sizes", *map(str, sizes)]
        subprocess.run(
            mpi_library.launch_command(mpi, world, argv),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=_DEADLINE_S,
            check=True,
        )
        return [Measurement(**each) for each in json.loads(result.read_text(encoding="utf-8"))]


def measure(result: Path, rounds: int, sizes: Sequence[int]) -> None:
    """What each rank runs; rank 0 writes the result."""
    import torch
    import torch.distributed as dist

    from conformance.reference import mpi_transport

    mpi_transport.register()
    dist.init_process_group("mpi4py", init_method="mpi://", timeout=datetime.timedelta(seconds=_DEADLINE_S / 3))
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // dist.get_world_size()))
    groups = {"mpi4py": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    measurements = []
    for operation in OPERATIONS:
        for nbytes in sizes:
            call = _operation(operation, nbytes, dist.get_world_size())
            times = _rounds(call, groups, rounds if nbytes >= GOAL_BYTES else rounds * _SMALL_ROUNDS)
            measurements.append(Measurement(operation, nbytes, times))
    if dist.get_rank() == 0:
        result.write_text(json.dumps([dataclasses.asdict(each) for each in measurements]), encoding="utf-8")
    dist.destroy_process_group()


def _operation(operation: str, nbytes: int, world: int) -> Callable[[Any], object]:
    """A call of the operation on tensors of this size; takes the group."""
    import torch
    import torch.distributed as dist

    # Renamed in torch 2.13.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    share = nbytes // 4 // world
    whole, part = torch.zeros(share * world), torch.zeros(share)
    calls: dict[str, Callable[[Any], object]] = {
        "all_reduce": lambda group: dist.all_reduce(whole, group=group),
        "all_gather": lambda group: gather(whole, part, group=group),
        "reduce_scatter": lambda group: scatter(part, whole, group=group),
    }
    return calls[operation]


def _rounds(call: Callable[[Any], object], groups: dict[str, Any], rounds: int) -> dict[str, float]:
    """Median seconds a call by group; the first two turns only warm up."""
    import torch
    import torch.distributed as dist

    times: dict[str, list[float]] = {name: [] for name in groups}
    for turn in range(rounds + 2):
        for name, group in groups.items():
            dist.barrier()
            begin = time.perf_counter()
            call(group)
            slowest = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            if turn >= 2:
                times[name].append(slowest.item())
    return {name: statistics.median(each) for name, each in times.items()}


if __name__ == "__main__":
    sys.exit(main())
