"""The checks of the offload suite: what is not where it was asked to be is seen."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.model.verdict import Unsupported
from conformance.suites import offload

WIDE = 1352430


def told(**changes: Any) -> list[dict[str, Any]]:
    """Two ranks with everything on disk; `changes` for rank 1."""
    good = {
        "optimizer_on_cpu": True,
        "optimizer_on_disk": True,
        "parameters_on_cpu": True,
        "parameters_on_disk": True,
        "optimizer_files": 12 * WIDE,
        "parameter_files": 2 * WIDE,
        "files": [],
    }
    return [good, {**good, **changes}]


AXES = {"optimizer": "nvme", "parameters": "nvme", "dtype": "bf16", "world": 2}


def test_everything_where_it_was_asked_to_be() -> None:
    offload.offload_is_honoured(AXES, told())


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"optimizer_on_cpu": False}, "rank 1: offload_optimizer was accepted and is not in use"),
        ({"optimizer_on_disk": False}, "offload_optimizer to nvme was accepted and is not in use"),
        ({"optimizer_files": 4 * WIDE}, "the optimizer's swap files hold 5409720 bytes"),
        ({"parameters_on_cpu": False}, "offload_param was accepted and is not in use"),
        ({"parameters_on_disk": False}, "offload_param to nvme was accepted and is not in use"),
        ({"parameter_files": 0}, "the parameters' swap files hold 0 bytes"),
    ],
)
def test_what_is_elsewhere_fails(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        offload.offload_is_honoured(AXES, told(**changes))


def test_parameters_in_float32_need_twice_the_files() -> None:
    with pytest.raises(AssertionError, match="the parameters' swap files hold 2704860 bytes"):
        offload.offload_is_honoured({**AXES, "dtype": "fp32"}, told())


def test_a_documented_combination_may_not_be_refused_and_an_undocumented_one_may() -> None:
    refused = [{"refused": "AssertionError: offload_param needs stage 3"}] * 2
    with pytest.raises(AssertionError, match="the combination is documented, and was refused"):
        offload.check_train(AXES, refused, {})
    with pytest.raises(Unsupported, match="offload_param needs stage 3"):
        offload.check_without_effect(AXES, refused, {})


def test_states_that_stay_away_or_never_left_fail() -> None:
    axes = {"stage": 2, "adam": "torch", "states": "hp_params", "dtype": "fp32", "world": 2}
    for wrong, message in (
        ({"away": [], "back": []}, "nothing was moved"),
        ({"away": ["lp_params"], "back": []}, r"moved were \['lp_params'\]"),
        ({"away": ["hp_params"], "back": ["hp_params"]}, "are still away"),
        (
            {"refused": "AssertionError: Offloading is supported only for DeepSpeed FusedAdam."},
            "refused with torch Adam",
        ),
    ):
        with pytest.raises(AssertionError, match=message):
            offload.check_move_states(axes, [wrong] * 2, {})
    refused = [{"refused": "AssertionError: Offloading is supported only for DeepSpeed FusedAdam."}] * 2
    with pytest.raises(Unsupported):
        offload.check_move_states({**axes, "stage": 3}, refused, {})


def test_a_swap_folder_is_refused_by_name() -> None:
    axes = {"place": "file", "optimizer": "nvme", "parameters": "none"}
    offload.check_swap_place(axes, [{"refused": "FileExistsError: [Errno 17] File exists: '/tmp/a file'"}] * 2)
    with pytest.raises(AssertionError, match="the swap folder raised 'TypeError"):
        offload.check_swap_place({**axes, "place": "none"}, [{"refused": "TypeError: no path"}] * 2)


def test_nvme_without_its_op_is_refused_by_every_rank() -> None:
    error = "RuntimeError: Unable to JIT load the async_io op due to it not being compatible"
    offload.check_without_library([{"refused": error}] * 2)
    with pytest.raises(AssertionError, match="rank 1: NVMe without async_io was not refused"):
        offload.check_without_library([{"refused": error}, {"refused": None}])
    with pytest.raises(AssertionError, match="rank 0: NVMe without async_io raised"):
        offload.check_without_library([{"refused": "KeyError: 'handle'"}, {"refused": error}])
