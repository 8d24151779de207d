"""Each check of the checkpoint suite holds for what it should, and fails for what it should not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from conformance.model.verdict import Unsupported
from conformance.oracle.trajectory import trajectory
from conformance.reference import CheckpointError
from conformance.suites import checkpoint
from conformance.suites.common import training
from conformance.suites.common.resuming import AFTER, BEFORE, question

ERROR = (
    "ZeRORuntimeException: The checkpoint being loaded used a DP world size of 2 but the current world size is 1. No."
)


def run(axes: dict[str, Any], world: int) -> list[dict[str, Any]]:
    """What a run reports that went on as the oracle does."""
    answer = trajectory(question({**axes, "world": world}))
    return [
        {
            "rank": rank,
            "world": world,
            "losses": list(answer.losses[BEFORE:]),
            "digest": training.digest(answer.weights),
            "saved": "saved",
            "loaded": "saved",
            "fresh": "fresh",
            **({"weights": dict(answer.weights)} if rank == 0 else {}),
        }
        for rank in range(world)
    ]


def test_resize() -> None:
    axes = {"stage": 0, "dtype": "fp32", "saved": 2, "resumed": 1}
    measured: dict[str, float] = {}
    steps = [run(axes, 2), run(axes, 1)]
    checkpoint.check_resize(axes, steps, measured)
    assert measured["weights_error"] < measured["weights_error_tolerance"]
    wrong = copy.deepcopy(steps)
    wrong[1][0]["weights"]["first.bias"] = wrong[1][0]["weights"]["first.bias"] * 1.01
    with pytest.raises(AssertionError, match=r"after the resume on 1 ranks not the training of 2.*first\.bias off by"):
        checkpoint.check_resize(axes, wrong, measured)
    with pytest.raises(AssertionError, match="stage 0 has nothing partitioned"):
        checkpoint.check_resize(axes, [steps[0], [{"refused": ERROR}]], measured)
    axes["stage"] = 2
    with pytest.raises(Unsupported, match="world size of 2"):
        checkpoint.check_resize(axes, [steps[0], [{"refused": ERROR}]], measured)
    with pytest.raises(AssertionError, match="raised 'AssertionError: '"):
        checkpoint.check_resize(axes, [steps[0], [{"refused": "AssertionError: "}]], measured)
    ours = str(
        CheckpointError(
            "checkpoint x",
            "one of 2 data-parallel ranks",
            "one of 1, …",
            "start 2 ranks; or convert it to a universal checkpoint",
        )
    )
    for integration, error in (("reference", f"CheckpointError: {ours}"), ("accelerate", ERROR)):
        told = [{"refused": error, "integration": integration}]
        with pytest.raises(Unsupported):
            checkpoint.check_resize(axes, [steps[0], told], measured)
    for integration, error in (("accelerate", f"CheckpointError: {ours}"), ("reference", ERROR)):
        told = [{"refused": error, "integration": integration}]
        with pytest.raises(AssertionError, match="expected what matches"):
            checkpoint.check_resize(axes, [steps[0], told], measured)


def test_change_stage() -> None:
    axes = {"stage": 1, "to_stage": 2, "world": 2}
    steps = [run(axes, 2), run(axes, 2)]
    checkpoint.check_change_stage(axes, steps, {})
    with pytest.raises(Unsupported, match="No such file"):
        checkpoint.check_change_stage(axes, [steps[0], [{"refused": "FileNotFoundError: No such file"}] * 2], {})
    for unclear in ("AssertionError: ", "AttributeError: 'NoneType' object has no attribute 'copy'"):
        with pytest.raises(AssertionError, match="a resume in another stage raised"):
            checkpoint.check_change_stage(axes, [steps[0], [{"refused": unclear}] * 2], {})
    with pytest.raises(AssertionError, match="rank 1: a resume in another stage was not refused"):
        half = [{"refused": "FileNotFoundError: No such file"}, {}]
        checkpoint.check_change_stage(axes, [steps[0], half], {})


def test_load_part() -> None:
    axes = {"stage": 2, "dtype": "fp32", "part": "module_only", "world": 2}
    counts = {"global_steps": 0, "global_samples": 0, "skipped_steps": 0}
    loaded = [{**each, "counts_after_load": counts} for each in run(axes, 2)]
    checkpoint.check_load_part(axes, [run(axes, 2), loaded, run(axes, 2)])
    nothing = [{**each, "loaded": "fresh"} for each in loaded]
    with pytest.raises(AssertionError, match="loading changed nothing"):
        checkpoint.check_load_part(axes, [run(axes, 2), nothing, run(axes, 2)])
    counted = [{**each, "counts_after_load": {**counts, "global_steps": 3}} for each in loaded]
    with pytest.raises(AssertionError, match="global_steps is 3, expected 0"):
        checkpoint.check_load_part(axes, [run(axes, 2), counted, run(axes, 2)])
    other = run(axes, 2)
    other[1]["losses"] = [0.0] * AFTER
    with pytest.raises(AssertionError, match="rank 1: after the resume the losses are"):
        checkpoint.check_load_part(axes, [run(axes, 2), loaded, other])


def latest(kind: str, **told: Any) -> None:
    saved = [{"saved": "third"}] * 2
    checkpoint.check_latest({"latest": kind, "stage": 2}, [saved, [{"fresh": "fresh", "error": None, **told}] * 2])


def test_latest() -> None:
    latest("missing", nothing=True, loaded="fresh", steps_after_load=0)
    with pytest.raises(AssertionError, match="without `latest` something was returned"):
        latest("missing", nothing=False, loaded="fresh", steps_after_load=0)
    with pytest.raises(AssertionError, match="without `latest` the weights changed"):
        latest("missing", nothing=True, loaded="third", steps_after_load=0)
    latest("stale", nothing=False, loaded="second", steps_after_load=2)
    with pytest.raises(AssertionError, match="`latest` points to step 2"):
        latest("stale", nothing=False, loaded="third", steps_after_load=3)
    latest("newline", nothing=False, loaded="third", steps_after_load=3)
    with pytest.raises(AssertionError, match="other weights than saved"):
        latest("newline", nothing=False, loaded="second", steps_after_load=3)
    latest("nowhere", error="AssertionError: there is no step9")
    with pytest.raises(AssertionError, match=r"expected what matches ': .*step9'"):
        latest("nowhere", error="AssertionError: ")
    with pytest.raises(AssertionError, match="was not refused"):
        latest("explicit", nothing=True, loaded="fresh", steps_after_load=0)


def test_tag_validation() -> None:
    error = "AssertionError: [rank=0] The checkpoint tag name 'rank-0' is not consistent across all ranks."
    check = checkpoint.check_tag_validation
    check({"validation": "Fail"}, [{"refused": error}] * 2)
    check({"validation": "Warn"}, [{"refused": None}] * 2)
    with pytest.raises(AssertionError, match="rank 1: the tag was not refused"):
        check({"validation": "Fail"}, [{"refused": error}, {"refused": None}])
    with pytest.raises(AssertionError, match="tag_validation is Ignore, and yet"):
        check({"validation": "Ignore"}, [{"refused": error}] * 2)


def test_save_place() -> None:
    check = checkpoint.check_save_place
    place = "FileExistsError: [Errno 17] File exists: '/tmp/x/checkpoint'"
    check({"place": "none"}, [{"refused": "ValueError: save_dir must be a non-empty string, got None"}] * 2)
    check({"place": "file"}, [{"refused": place}, {"refused": "RuntimeError: Connection closed by peer"}])
    with pytest.raises(AssertionError, match="rank 0: the place raised 'RuntimeError"):
        check({"place": "file"}, [{"refused": "RuntimeError: Connection closed by peer"}] * 2)
    with pytest.raises(AssertionError, match="rank 1: the place was not refused"):
        check({"place": "file"}, [{"refused": place}, {"refused": None}])


def test_what_must_still_load() -> None:
    good = {"error": None, "fresh": "fresh", "loaded": "saved"}
    saved = [{"saved": "saved", "refused": "OSError: no space"}] * 2
    checkpoint.check_killed_save([saved, [good] * 2])
    checkpoint.check_full_disk([saved, [good] * 2])
    with pytest.raises(AssertionError, match="rank 1: after a killed save, loading raised EOFError"):
        checkpoint.check_killed_save([saved, [good, {**good, "error": "EOFError: x"}]])
    with pytest.raises(AssertionError, match="loading gave other weights"):
        checkpoint.check_full_disk([saved, [{**good, "loaded": "x"}] * 2])
    with pytest.raises(AssertionError, match="a save without space was not refused"):
        checkpoint.check_full_disk([[{"saved": "saved", "refused": None}] * 2, [good] * 2])


def test_damaged() -> None:
    checkpoint.check_damaged([[], [{"error": None}, {"error": "EOFError: Ran out of input"}]])
    with pytest.raises(AssertionError, match="loaded without an error in any rank"):
        checkpoint.check_damaged([[], [{"error": None}] * 2])


def test_whole_weights() -> None:
    check = checkpoint.check_whole_weights
    check({"stage": 2}, [[], [{"differs": None, "dtypes": ["torch.float32"]}]])
    with pytest.raises(AssertionError, match=r"first.bias is not the saved one"):
        check({"stage": 2}, [[], [{"differs": "first.bias is not the saved one", "dtypes": ["torch.float32"]}]])
    with pytest.raises(AssertionError, match="expected float32"):
        check({"stage": 2}, [[], [{"differs": None, "dtypes": ["torch.bfloat16"]}]])
    with pytest.raises(AssertionError, match="zero_to_fp32 raised ValueError: no"):
        check({"stage": 2}, [[], [{"refused": "ValueError: no"}]])
    with pytest.raises(Unsupported):
        check({"stage": 0}, [[], [{"refused": "ValueError: x is not a zero checkpoint"}]])
    with pytest.raises(AssertionError, match="zero_to_fp32 was not refused"):
        check({"stage": 0}, [[], [{"differs": None, "dtypes": []}]])


def test_export_model() -> None:
    good = {"returned": True, "written": True, "dtypes": ["torch.bfloat16"], "file": "a", "computing": "a"}
    check = checkpoint.check_export_model
    check({"stage": 3, "dtype": "bf16", "gather": True}, [good] * 2)
    check({"stage": 3, "dtype": "bf16", "gather": False}, [{"returned": False, "written": False}] * 2)
    with pytest.raises(AssertionError, match="without gathering returned True and wrote a file"):
        check({"stage": 3, "dtype": "bf16", "gather": False}, [good] * 2)
    for wrong, message in (
        ({"returned": None}, "returned None"),
        ({"written": False}, "there is no file"),
        ({"dtypes": ["torch.float32"]}, "the file holds .*float32"),
        ({"file": "b"}, "other weights than the model"),
    ):
        with pytest.raises(AssertionError, match=message):
            check({"stage": 2, "dtype": "bf16", "gather": False}, [good, {**good, **wrong}])


def test_safe_to_load() -> None:
    checkpoint.check_safe_to_load([[], [{"refused": {}}]])
    with pytest.raises(AssertionError, match=r"refuses model.pt: UnpicklingError"):
        checkpoint.check_safe_to_load([[], [{"refused": {"model.pt": "UnpicklingError: x"}}]])


def test_groups() -> None:
    axes = {"stage": 1, "dtype": "fp32", "world": 2, "saved": 2, "resumed": 2}
    both = [run(axes, 2), run(axes, 2)]
    for each in [*both[0], *both[1]]:
        each.update(options=[[0.01, 0.1], [0.005, 0.0]], universal=True)
    checkpoint.check_resume_groups(both)
    checkpoint.check_universal_groups(axes, [both[0], [{"refused": None}], both[1]], {})
    faults: list[tuple[str, dict[str, Any], str]] = [
        ("resumed", {"options": [[0.01, 0.1], [0.01, 0.1]]}, r"the groups have the options .*saved were"),
        ("both", {"options": [[0.01, 0.1]]}, "there are not two different groups"),
        ("resumed", {"loaded": "fresh"}, "loading changed nothing"),
        ("resumed", {"losses": [0.0] * AFTER}, "after the resume the losses are"),
    ]
    for where, changes, message in faults:
        wrong = copy.deepcopy(both)
        for each in [*wrong[1], *(wrong[0] if where == "both" else [])]:
            each.update(changes)
        with pytest.raises(AssertionError, match=message):
            checkpoint.check_resume_groups(wrong)
    plain = copy.deepcopy(both)
    plain[1][0]["universal"] = False
    with pytest.raises(AssertionError, match="the universal checkpoint was not what was loaded"):
        checkpoint.check_universal_groups(axes, [plain[0], [{"refused": None}], plain[1]], {})
    with pytest.raises(AssertionError, match="the conversion raised KeyError: 1"):
        checkpoint.check_universal_groups(axes, [both[0], [{"refused": "KeyError: 1"}], both[1]], {})


def test_without_schedule() -> None:
    axes = {"stage": 1, "dtype": "fp32", "world": 2}
    steps = [run(axes, 2), run(axes, 2)]
    for each in steps[1]:
        each.update(at=[-1, -1], counts_after_load=dict(checkpoint.COUNTS), losses=[1.0, 2.0, 3.0])
    checkpoint.check_resume_without_schedule(steps)
    faults: list[tuple[dict[str, Any], str]] = [
        ({"at": [-1, 2]}, "the schedule was loaded nevertheless"),
        ({"loaded": "fresh"}, "loading changed nothing"),
        ({"counts_after_load": {"global_steps": 0}}, "after loading, the engine counts"),
        ({"losses": steps[0][0]["losses"]}, "the schedule changes nothing"),
    ]
    for changes, message in faults:
        wrong = copy.deepcopy(steps)
        for each in wrong[1]:
            each.update(changes)
        with pytest.raises(AssertionError, match=message):
            checkpoint.check_resume_without_schedule(wrong)
