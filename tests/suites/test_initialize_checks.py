"""The checks of the initialize suite can fail."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from conformance.model.verdict import Unsupported
from conformance.suites import initialize as suite
from tests.suites.planted import proof, proofs, refused, returned

STEP_LR = "torch.optim.lr_scheduler.StepLR"


def started(*outcomes: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """An attempt by rank under `started`."""
    return [{"started": outcome, **more} for outcome in outcomes]


def two(outcome: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """The same attempt by two ranks; a proof becomes that of each rank."""
    found = outcome.get("returned")
    if isinstance(found, dict):
        own = ({**found, "rank": rank, "engine_rank": rank, "local_rank": rank} for rank in (0, 1))
        return [{"started": returned(proof), **more} for proof in own]
    return started(outcome, outcome, **more)


WORKS = returned(proof())


def test_args_omitted_sees_that_a_form_differs() -> None:
    seen = [{form: proof(rank) for form in ("omitted", "none", "empty")} for rank in (0, 1)]
    axes = {"call": "deepspeed", "stage": 0, "world": 2}
    suite.check_args_omitted(axes, seen)
    for rank in (0, 1):
        seen[rank]["none"]["digest"] = "another"
    with pytest.raises(AssertionError, match="none differs from omitted"):
        suite.check_args_omitted(axes, seen)


def test_model_first_is_refused_by_one_and_right_for_the_other() -> None:
    refusal = two(refused("AssertionError", suite.NO_MODEL))
    suite.check_model_first({"call": "deepspeed"}, refusal)
    suite.check_model_first({"call": "reference"}, two(WORKS))
    with pytest.raises(AssertionError):
        suite.check_model_first({"call": "deepspeed"}, two(WORKS))
    with pytest.raises(AssertionError):
        suite.check_model_first({"call": "reference"}, refusal)


def test_model_missing_sees_that_distributed_was_started() -> None:
    axes = {"call": "deepspeed", "given": "none"}
    seen = [{"attempt": refused("AssertionError", suite.NO_MODEL), "up": False}]
    suite.check_model_missing(axes, seen)
    with pytest.raises(AssertionError, match="started before the model was missed"):
        suite.check_model_missing(axes, [{**seen[0], "up": True}])


def test_config_missing_sees_when_distributed_was_started() -> None:
    axes = {"call": "deepspeed", "given": "nothing"}
    seen = [
        {"attempt": refused("AssertionError", suite.NO_CONFIG), "up": True, "after": proof(rank)} for rank in (0, 1)
    ]
    suite.check_config_missing(axes, seen)
    with pytest.raises(AssertionError, match=re.escape("torch.distributed up: False")):
        suite.check_config_missing(axes, [{**one, "up": False} for one in seen])
    with pytest.raises(AssertionError, match="steps is 0"):
        suite.check_config_missing(axes, [{**one, "after": proof(rank, steps=0)} for rank, one in enumerate(seen)])


def test_config_beats_config_params_sees_the_other_one() -> None:
    suite.check_config_beats_config_params(proofs())
    with pytest.raises(AssertionError, match="micro_batch is 5, expected 2"):
        suite.check_config_beats_config_params(proofs(micro_batch=5))


def test_deepscale_config_sees_that_nothing_moved() -> None:
    suite.check_deepscale_config({"beside": "none"}, two(WORKS, moved=True))
    with pytest.raises(AssertionError, match="was not moved"):
        suite.check_deepscale_config({"beside": "none"}, two(WORKS, moved=False))
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_deepscale_config({"beside": "deepspeed_config"}, two(WORKS, moved=True))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"unchanged": False}, "changed the caller's dict"),
        ({"outer_change_seen": True}, "top-level key reached the engine"),
        ({"inner_change_seen": False}, "inner table reached the engine: False, expected True"),
        ({"second": proof(digest="another")}, "the same dict gave other weights"),
    ],
)
def test_caller_dict_sees(change: dict[str, Any], says: str) -> None:
    axes = {"call": "deepspeed", "stage": 0}
    right = {
        "first": proof(of=1),
        "second": proof(of=1),
        "unchanged": True,
        "outer_change_seen": False,
        "inner_change_seen": True,
    }
    suite.check_caller_dict(axes, [right])
    if "second" in change:
        change = {"second": proof(of=1, digest="another")}
    with pytest.raises(AssertionError, match=re.escape(says)):
        suite.check_caller_dict(axes, [{**right, **change}])


def test_unknown_key_sees_that_a_table_took_it() -> None:
    error = "1 validation error\nno_such_key\n  Extra inputs are not permitted [type=extra_forbidden]"
    refusal = two(refused("ValidationError", error, module="pydantic_core._pydantic_core"))
    suite.check_unknown_key({"call": "deepspeed", "table": "fp16"}, refusal)
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_unknown_key({"call": "deepspeed", "table": "fp16"}, two(WORKS))
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_unknown_key({"call": "reference", "table": "top_level"}, two(WORKS))


def test_batch_sizes_sees_a_wrong_resolution() -> None:
    axes = {"given": "train", "accumulation": 1}
    suite.check_batch_sizes(axes, proofs())
    with pytest.raises(AssertionError, match="micro_batch is 1, expected 2"):
        suite.check_batch_sizes(axes, proofs(micro_batch=1))


def test_batch_sizes_refused_sees_other_numbers() -> None:
    axes = {"call": "deepspeed", "wrong": "contradiction", "world": 2}
    suite.check_batch_sizes_refused(
        axes, [{"attempt": refused("AssertionError", f"{suite.BATCH_TRIPLE} 14 != 2 * 1 * 2")}]
    )
    with pytest.raises(AssertionError, match="14 != 2"):
        suite.check_batch_sizes_refused(
            axes, [{"attempt": refused("AssertionError", f"{suite.BATCH_TRIPLE} 7 != 2 * 1 * 1")}]
        )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"loader": None}, "loader is None"),
        ({"optimizer_is_the_engine's": False}, "optimizer_is_the_engine's is False"),
        ({"engine": "torch.nn.Linear"}, "engine is 'torch.nn.Linear'"),
    ],
)
def test_returned_sees(change: dict[str, Any], says: str) -> None:
    axes = {"given": "everything", "stage": 0}
    right = {
        "kind": "builtins.tuple",
        "engine": "deepspeed.runtime.engine.DeepSpeedEngine",
        "optimizer_is_the_engine's": True,
        "loader_is_the_engine's": True,
        "scheduler_is_the_engine's": True,
        "loader": "deepspeed.runtime.dataloader.DeepSpeedDataLoader",
        "proof": proof(of=1, scheduler=STEP_LR),
    }
    suite.check_returned(axes, [right])
    with pytest.raises(AssertionError, match=re.escape(says)):
        suite.check_returned(axes, [{**right, **change}])


@pytest.mark.parametrize(
    ("batches", "says"),
    [
        ([[[0.0, 1.0], [2.0, 3.0]], [[0.0, 1.0], [2.0, 3.0]]], "expected each of the 8 samples once"),
        ([[[0.0, 1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0, 7.0]]], "batches of another size"),
    ],
)
def test_training_data_sees(batches: list[list[list[float]]], says: str) -> None:
    right = [[[0.0, 5.0], [2.0, 3.0]], [[4.0, 1.0], [6.0, 7.0]]]
    suite.check_training_data(
        {"data": "given"}, [{"batches": share, "proof": proof(rank)} for rank, share in enumerate(right)]
    )
    with pytest.raises(AssertionError, match=says):
        suite.check_training_data(
            {"data": "given"}, [{"batches": share, "proof": proof(rank)} for rank, share in enumerate(batches)]
        )


def test_args_local_rank_sees_that_args_kept_theirs() -> None:
    seen = [{**one, "own": rank, "after": rank} for rank, one in enumerate(two(WORKS))]
    suite.check_args_local_rank({"value": "minus_one"}, seen)
    with pytest.raises(AssertionError, match=re.escape("args.local_rank is -1 afterwards")):
        suite.check_args_local_rank({"value": "minus_one"}, [{**one, "after": -1} for one in seen])
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_args_local_rank({"value": "different"}, seen)


def test_open_mpi_local_rank_sees_that_local_rank_was_not_set() -> None:
    seen = [{**one, "own": str(rank), "after": str(rank)} for rank, one in enumerate(two(WORKS))]
    suite.check_open_mpi_local_rank({"call": "deepspeed", "value": "alone"}, seen)
    with pytest.raises(AssertionError, match="LOCAL_RANK is None afterwards"):
        suite.check_open_mpi_local_rank(
            {"call": "deepspeed", "value": "alone"}, [{**one, "after": None} for one in seen]
        )


def test_device_rank_sees_another_device() -> None:
    seen = [{**one, "chosen": [rank]} for rank, one in enumerate(two(WORKS))]
    suite.check_device_rank({"value": "own"}, seen)
    with pytest.raises(AssertionError, match=re.escape("set_device was called with []")):
        suite.check_device_rank({"value": "own"}, [{**one, "chosen": []} for one in seen])


def test_torch_first_sees_a_second_group() -> None:
    seen = [{"proof": proof(rank), "same_group": True} for rank in (0, 1)]
    suite.check_torch_first(seen)
    with pytest.raises(AssertionError, match="replaced the default group"):
        suite.check_torch_first([{**one, "same_group": False} for one in seen])


def test_dist_init_required_sees_that_nothing_was_missed() -> None:
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_dist_init_required({"required": "false", "up": "nothing"}, two(WORKS))


def test_backend_choice_sees_the_default_instead() -> None:
    refusal = refused("TypeError", "initialize() got an unexpected keyword argument 'dist_backend'")
    seen = [{"refused": refusal, "default": "gloo", "proof": proof(rank, transport="chosen_gloo")} for rank in (0, 1)]
    suite.check_backend_choice({"by": "init_distributed"}, copy.deepcopy(seen))
    for one in seen:
        one["proof"]["transport"] = "gloo"
    with pytest.raises(AssertionError, match="the transport is gloo, expected chosen_gloo"):
        suite.check_backend_choice({"by": "init_distributed"}, seen)


def test_group_timeout_sees_another_one() -> None:
    seen = [{"seconds": 77.0, "proof": proof(rank)} for rank in (0, 1)]
    suite.check_group_timeout({"given": "seconds"}, seen)
    with pytest.raises(AssertionError, match=re.escape("waits 77.0 s, expected 600 s")):
        suite.check_group_timeout({"given": "nothing"}, seen)


def test_optimizer_sees_that_the_object_was_replaced() -> None:
    seen = [{"kept": True, "proof": proof(rank)} for rank in (0, 1)]
    suite.check_optimizer({"kind": "object", "stage": 0}, seen)
    with pytest.raises(AssertionError, match="is not the object that was passed"):
        suite.check_optimizer({"kind": "object", "stage": 0}, [{**one, "kept": False} for one in seen])


def test_optimizer_absent_sees_other_outputs() -> None:
    seen = two(returned({"optimizer": None, "same_outputs": True}))
    suite.check_optimizer_absent({"stage": 0}, seen)
    with pytest.raises(AssertionError, match="outputs are not the model's"):
        suite.check_optimizer_absent({"stage": 0}, two(returned({"optimizer": None, "same_outputs": False})))
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_optimizer_absent({"stage": 2}, seen)


def test_scheduler_sees_constant_rates() -> None:
    axes, right = {"kind": "callable", "stage": 0}, {"steps": 3, "scheduler": STEP_LR}
    suite.check_scheduler(axes, proofs(**right, rates=[[0.01], [0.005], [0.0025], [0.00125]]))
    with pytest.raises(AssertionError, match=re.escape("the rates were [0.01, 0.01, 0.01, 0.01]")):
        suite.check_scheduler(axes, proofs(**right, rates=[[0.01]] * 4))


def test_scheduler_of_another_optimizer_sees_that_it_was_accepted() -> None:
    says = "Client Optimizer (type = <class 'NoneType'> is not instantiated but Client LR Scheduler is instantiated"
    suite.check_scheduler_of_another_optimizer(two(refused("AssertionError", says)))
    with pytest.raises(AssertionError, match="accepted, giving 'an engine whose rates were"):
        suite.check_scheduler_of_another_optimizer(two(returned("an engine whose rates were [[0.01]]")))


def test_untested_optimizer_sees_that_it_was_accepted() -> None:
    with pytest.raises(AssertionError, match="accepted"):
        suite.check_untested_optimizer({"stage": 2, "allowed": False}, two(WORKS))


def test_offload_sees_that_nothing_was_offloaded() -> None:
    wrapper = "deepspeed.runtime.zero.stage_1_and_2.DeepSpeedZeroOptimizer"
    right = proof(stage=2, optimizer=wrapper, offloaded_to="cpu")
    suite.check_offload_client_optimizer({"stage": 2, "forced": False}, two(returned(right)))
    with pytest.raises(AssertionError, match="was not offloaded"):
        suite.check_offload_client_optimizer(
            {"stage": 2, "forced": False}, two(returned({**right, "offloaded_to": "none"}))
        )


def test_dtype_is_unsupported_only_with_the_right_error() -> None:
    says = "Type fp16 is not supported on your device."
    lacking = {"fp16": False, "bf16": True}
    with pytest.raises(Unsupported, match=re.escape(says)):
        suite.check_dtype({"dtype": "fp16"}, two(refused("ValueError", says), supported=lacking))
    with pytest.raises(AssertionError, match="raised RuntimeError"):
        suite.check_dtype({"dtype": "fp16"}, two(refused("RuntimeError", "no kernel"), supported=lacking))
    with pytest.raises(AssertionError, match="dtype is 'float32', expected 'bfloat16'"):
        suite.check_dtype({"dtype": "bf16"}, two(WORKS, supported=lacking))


def test_pipeline_sees_that_the_loss_rises() -> None:
    right = {
        "refused": refused("AssertionError", "mpu must be None with pipeline parallelism"),
        "engine": "deepspeed.runtime.pipe.engine.PipelineEngine",
        "steps": 2,
        "losses": [0.2, 0.1],
    }
    suite.check_pipeline_mpu([right, right])
    with pytest.raises(AssertionError, match="the loss did not fall"):
        suite.check_pipeline_mpu([{**right, "losses": [0.1, 0.2]}] * 2)
    with pytest.raises(AssertionError, match="losses: rank 0 has"):
        suite.check_pipeline_mpu([right, {**right, "losses": [0.3, 0.1]}])
