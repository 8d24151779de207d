"""Each worker's own GPUs, so that workers do not meet on one."""

from __future__ import annotations

from collections.abc import Sequence


def device_slice(devices: Sequence[str], worker: int, workers: int) -> list[str]:
    """The part of `devices` that worker number `worker` (from 0) of `workers` owns.

    All parts have the same size, so that every worker can run the same cells; devices that do not divide stay unused.

    Raises:
        ValueError: more workers than devices.
    """
    size = len(devices) // workers
    if size == 0:
        raise ValueError(
            f"-n {workers}: found {len(devices)} GPUs, expected at least one a worker; use -n {max(len(devices), 1)}"
        )
    return list(devices[worker * size : (worker + 1) * size])
