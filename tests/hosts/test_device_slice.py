"""Slices of GPUs: disjoint, of one size, in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.hosts.device_slice import device_slice


@given(st.integers(1, 16), st.integers(1, 16))
def test_workers_never_share_a_device(devices: int, workers: int) -> None:
    names = [str(number) for number in range(devices)]
    if workers > devices:
        with pytest.raises(ValueError, match=f"found {devices} GPUs"):
            device_slice(names, 0, workers)
        return
    slices = [device_slice(names, worker, workers) for worker in range(workers)]
    flat = [name for part in slices for name in part]
    assert len(flat) == len(set(flat))
    assert {len(part) for part in slices} == {devices // workers}
