"""ZeRO training against plain PyTorch."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

from conformance.model.case import case
from conformance.model.setting import Axes, Observation, Setting
from conformance.model.verdict import Unsupported
from conformance.oracle.question import Optimizer, Question
from conformance.suites.common import checks, training
from conformance.suites.common.resuming import attempt


def train(setting: Setting) -> Observation:
    """Train the MLP for some steps with the stage, dtype, accumulation and clipping that the axes say."""
    asked = training.question(setting.parameters)
    support = {"supports_dtype": training.supports(asked.dtype)}
    try:
        session = training.start(setting, asked, training.config(asked, stage=setting["stage"]))
    except ValueError as error:
        return {**support, "refused": f"ValueError: {error}"}
    progress = training.train(session, asked)
    told = training.report(session, progress)
    session.stop()
    return {**support, "device": setting.device, "asked_transport": setting.transport, **told}


@case("zero/train", train)
def check_train(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The world asked for, all ranks alike, the feature on, and the oracle's trajectory."""
    asked = training.question(axes)
    checks.refusal(observations, asked.dtype)
    checks.world_is(observations, asked.world)
    checks.ranks_agree(observations, "digest", "computing_digest", "gradient_norms")
    checks.feature_is_on(
        observations, asked, stage=int(axes["stage"]), transport=observations[0]["asked_transport"], **checks.MLP
    )
    checks.computing_weights_are_rounded_masters(observations[0], asked.dtype)
    checks.follows_oracle(observations, asked, measured)


# --- other numbers of ranks, other models --------------------------------------------------------------------------


@case("zero/four", train)
def check_four(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The same on four ranks, where the last partition is mostly padding for the small tensors."""
    check_train(axes, observations, measured)


def same_training(
    axes: Axes, observations: list[Observation], measured: dict[str, float], asked: Question, stage: int | None = None
) -> None:
    """What every training of any model must be, whatever feature was on."""
    checks.refusal(observations, asked.dtype)
    checks.world_is(observations, asked.world)
    checks.ranks_agree(observations, "digest", "computing_digest")
    for rank, each in enumerate(observations):
        found = (each["stage"], each["steps"], each["transport"])
        expected = (int(axes["stage"]) if stage is None else stage, asked.steps, each["asked_transport"])
        assert found == expected, f"rank {rank}: stage, steps and transport are {found}, expected {expected}"
        found_dtypes = [each["computing_dtypes"], each["master_dtypes"]]
        expected_dtypes = [[checks.DTYPES[asked.dtype]], ["torch.float32"]]
        assert found_dtypes == expected_dtypes, (
            f"rank {rank}: computes and keeps in {found_dtypes}, not {expected_dtypes}"
        )
    checks.computing_weights_are_rounded_masters(observations[0], asked.dtype)
    checks.follows_oracle(observations, asked, measured)


def finish(setting: Setting, session: Any, progress: training.Progress, **more: Any) -> Observation:
    """The report of a scenario that got to its end."""
    told = training.report(session, progress)
    session.stop()
    return {"supports_dtype": True, "device": setting.device, "asked_transport": setting.transport, **told, **more}


@case("zero/model", train)
def check_model(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """A transformer with tied embeddings, a convolution with buffers, and a model of everything that is awkward."""
    same_training(axes, observations, measured, training.question(axes))


@case("zero/uncommon_parameter", train)
def check_uncommon_parameter(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """A parameter without dimensions, or one without elements, in a model that is common otherwise."""
    same_training(axes, observations, measured, training.question(axes))


@case("zero/outputs", train)
def check_outputs(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """A model with several outputs, in a tuple or by name, one of them in no loss."""
    same_training(axes, observations, measured, training.question(axes))


# --- optimizers and schedules --------------------------------------------------------------------------------------

ADAM = dict(Optimizer().options)
SGD = Optimizer("SGD", (("lr", 0.1), ("momentum", 0.9), ("weight_decay", 0.01)))
ADAGRAD = Optimizer("Adagrad", (("lr", 0.02), ("eps", 1e-2), ("weight_decay", 0.01)))
RMSPROP = Optimizer("RMSprop", (("lr", 1e-2), ("eps", 1e-2)))
LION = Optimizer("Lion", (("lr", 1e-3), ("betas", (0.9, 0.95)), ("weight_decay", 0.1)))
L2 = Optimizer("Adam", (("lr", 1e-2), ("betas", (0.9, 0.95)), ("eps", 1e-2), ("weight_decay", 0.01)))

OPTIMIZERS: dict[str, tuple[Optimizer, dict[str, Any] | None, str]] = {
    # by name: what the oracle takes, the config section (None: a client gives the optimizer), the class it must be
    "adam": (Optimizer(), {"type": "Adam", "params": {**ADAM, "torch_adam": True}}, "torch.optim.adamw.AdamW"),
    "adam_l2": (
        L2,
        {"type": "Adam", "params": {**dict(L2.options), "torch_adam": True, "adam_w_mode": False}},
        "torch.optim.adam.Adam",
    ),
    "sgd": (SGD, {"type": "SGD", "params": dict(SGD.options)}, "torch.optim.sgd.SGD"),
    "adagrad": (ADAGRAD, {"type": "Adagrad", "params": dict(ADAGRAD.options)}, "torch.optim.adagrad.Adagrad"),
    "rmsprop": (RMSPROP, {"type": "RMSprop", "params": dict(RMSPROP.options)}, "torch.optim.rmsprop.RMSprop"),
    "client": (Optimizer(), None, "torch.optim.adamw.AdamW"),
    "callable": (Optimizer(), None, "torch.optim.adamw.AdamW"),
    "fused": (Optimizer(), {"type": "AdamW", "params": ADAM}, "deepspeed.ops.adam.fused_adam.FusedAdam"),
    "cpu_adam": (Optimizer(), None, "deepspeed.ops.adam.cpu_adam.DeepSpeedCPUAdam"),
    "cpu_lion": (LION, {"type": "Lion", "params": dict(LION.options)}, "deepspeed.ops.lion.cpu_lion.DeepSpeedCPULion"),
    "cpu_adagrad": (
        ADAGRAD,
        {"type": "Adagrad", "params": dict(ADAGRAD.options)},
        "deepspeed.ops.adagrad.cpu_adagrad.DeepSpeedCPUAdagrad",
    ),
}


def optimizer_question(axes: Axes) -> Question:
    """The usual question with the axis's optimizer."""
    return dataclasses.replace(training.question(axes), optimizer=OPTIMIZERS[str(axes["optimizer"])][0])


def train_with_optimizer(setting: Setting) -> Observation:
    """Train with an optimizer by config, or with one that a client hands over."""
    import torch

    from conformance import integrations, models

    asked = optimizer_question(setting.parameters)
    name = setting["optimizer"]
    _, section, _ = OPTIMIZERS[name]
    made = training.config(asked, stage=setting["stage"])
    made["zero_allow_untested_optimizer"] = name in ("sgd", "rmsprop")
    if name in ("cpu_lion", "cpu_adagrad", "cpu_adam"):
        made["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": False}
    del made["optimizer"]
    given: Any = None
    model = models.build(asked.task, asked.seed)
    options = dict(asked.optimizer.options)
    if section is not None:
        made["optimizer"] = {"type": section["type"], "params": dict(section["params"])}
    elif name == "cpu_adam":
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        given = DeepSpeedCPUAdam(model.parameters(), **options)
    elif name == "client":
        given = torch.optim.AdamW(model.parameters(), **options)
    else:
        given = functools.partial(torch.optim.AdamW, **options)
    loss = models.task(asked.task).loss
    session = integrations.start(setting, integrations.Training(model, made, loss, optimizer=given))
    return finish(setting, session, training.train(session, asked))


@case("zero/optimizer", train_with_optimizer)
def check_optimizer(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The oracle's training with that optimizer, and its class."""
    expected = OPTIMIZERS[str(axes["optimizer"])][2]
    found = [each["basic_optimizer"] for each in observations]
    assert found == [expected] * len(found), f"the optimizers are {found}, expected {expected}"
    same_training(axes, observations, measured, optimizer_question(axes))


def _cosine(progress: float) -> float:
    return 1e-2 * (1e-4 + (1 - 1e-4) * (1 + math.cos(math.pi * progress)) / 2)


SCHEDULES: dict[str, tuple[dict[str, Any] | None, tuple[float, ...]]] = {
    # by name: the config's parameters (None: a client gives the scheduler), and the learning rate of each step as the
    # schedule's definition gives it. DeepSpeed's schedules are at their beginning for the first two steps: they are
    # stepped after a step, and begin to count there.
    "WarmupLR": (
        {"warmup_min_lr": 1e-3, "warmup_max_lr": 1e-2, "warmup_num_steps": 4, "warmup_type": "linear"},
        (1e-3, 1e-3, 3.25e-3, 5.5e-3, 7.75e-3, 1e-2),
    ),
    "WarmupDecayLR": (
        {"total_num_steps": 6, "warmup_max_lr": 1e-2, "warmup_num_steps": 2, "warmup_type": "linear"},
        (0.0, 0.0, 5e-3, 1e-2, 7.5e-3, 5e-3),
    ),
    "WarmupCosineLR": (
        {"total_num_steps": 6, "warmup_num_steps": 2, "warmup_type": "linear"},
        (0.0, 0.0, 5e-3, _cosine(0.25), _cosine(0.5), _cosine(0.75)),
    ),
    "OneCycle": (
        {
            "cycle_min_lr": 1e-3,
            "cycle_max_lr": 1e-2,
            "cycle_first_step_size": 2,
            "cycle_momentum": False,
            "decay_step_size": 1,
            "decay_lr_rate": 0.1,
        },
        (1e-3, 5.5e-3, 1e-2, 5.5e-3, 1e-3, 1e-3 / 1.1),
    ),
    "LRRangeTest": (
        {"lr_range_test_min_lr": 1e-3, "lr_range_test_step_size": 2, "lr_range_test_step_rate": 0.5},
        (1e-3, 1.25e-3, 1.5e-3, 1.75e-3, 2e-3, 2.25e-3),
    ),
    "client": (None, tuple(1e-2 * 0.8**step for step in range(6))),
    "callable": (None, tuple(1e-2 * 0.8**step for step in range(6))),
}


def scheduled_question(axes: Axes) -> Question:
    """The usual question for six steps with the schedule's learning rates."""
    return dataclasses.replace(training.question(axes, steps=6), rates=SCHEDULES[str(axes["schedule"])][1])


def train_on_schedule(setting: Setting) -> Observation:
    """Train with a schedule by config, or with one of torch's that a client hands over."""
    import torch

    from conformance import integrations, models

    asked = scheduled_question(setting.parameters)
    made = training.config(asked, stage=setting["stage"])
    parameters, _ = SCHEDULES[setting["schedule"]]
    model = models.build(asked.task, asked.seed)
    given: dict[str, Any] = {}
    decay = functools.partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.8)
    if parameters is not None:
        made["scheduler"] = {"type": setting["schedule"], "params": parameters}
    elif setting["schedule"] == "client":
        del made["optimizer"]
        given["optimizer"] = torch.optim.AdamW(model.parameters(), **dict(asked.optimizer.options))
        given["scheduler"] = decay(given["optimizer"])
    else:
        given["scheduler"] = decay
    loss = models.task(asked.task).loss
    session = integrations.start(setting, integrations.Training(model, made, loss, **given))
    progress = training.Progress()
    rates: list[float] = []
    for step in range(asked.steps):
        rates.extend(session.engine.get_lr())
        one = training.train(session, asked, first=step, steps=1)
        progress.losses += one.losses
        progress.gradient_norms += one.gradient_norms
    return finish(setting, session, progress, rates=rates)


@case("zero/schedule", train_on_schedule)
def check_schedule(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The learning rates are the schedule's, and the training is that with those rates."""
    asked = scheduled_question(axes)
    for rank, each in enumerate(observations):
        wrong = [
            step
            for step, wanted in enumerate(asked.rates)
            if not math.isclose(each["rates"][step], wanted, rel_tol=1e-9)
        ]
        assert not wrong, f"rank {rank}: the learning rates are {each['rates']}, expected {list(asked.rates)}"
    same_training(axes, observations, measured, asked)


# --- features of the ZeRO optimizers -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Feature:
    """A way to have ZeRO work that changes nothing about the numbers.

    Attributes:
        zero: laid over zero_optimization. more: laid over the config.
        told: where the engine tells of it, as a path from the engine, and what it must tell.
    """

    told: dict[str, Any]
    zero: dict[str, Any] = dataclasses.field(default_factory=dict)
    more: dict[str, Any] = dataclasses.field(default_factory=dict)


FEATURES: dict[str, Feature] = {
    "contiguous_gradients_off": Feature({"optimizer.contiguous_gradients": False}, {"contiguous_gradients": False}),
    "overlap_comm_on": Feature({"zero_overlap_comm": True}, {"overlap_comm": True}),
    "overlap_comm_off": Feature({"zero_overlap_comm": False}, {"overlap_comm": False}),
    "reduce_scatter_off": Feature({"optimizer.reduce_scatter": False}, {"reduce_scatter": False}),
    "allgather_partitions_off": Feature({"zero_allgather_partitions": False}, {"allgather_partitions": False}),
    "multi_rank_bucket_off": Feature(
        {"zero_multi_rank_bucket_allreduce": False}, {"use_multi_rank_bucket_allreduce": False}
    ),
    "buckets_tiny": Feature(
        {"zero_reduce_bucket_size": 50, "zero_allgather_bucket_size": 50},
        {"reduce_bucket_size": 50, "allgather_bucket_size": 50},
    ),
    "buckets_huge": Feature(
        {"zero_reduce_bucket_size": 10**9, "zero_allgather_bucket_size": 10**9},
        {"reduce_bucket_size": 10**9, "allgather_bucket_size": 10**9},
    ),
    "round_robin_gradients": Feature({"optimizer.round_robin_gradients": True}, {"round_robin_gradients": True}),
    "sub_groups_small": Feature({"zero_sub_group_size": 500}, {"sub_group_size": 500}),
    "persist_nothing": Feature({"zero_param_persistence_threshold": 0}, {"stage3_param_persistence_threshold": 0}),
    "persist_everything": Feature(
        {"zero_param_persistence_threshold": 10**6}, {"stage3_param_persistence_threshold": 10**6}
    ),
    "prefetch_nothing": Feature(
        {"zero_prefetch_bucket_size": 0, "zero_max_live_parameters": 100},
        {"stage3_prefetch_bucket_size": 0, "stage3_max_live_parameters": 100, "stage3_max_reuse_distance": 0},
    ),
    "prescale_gradients": Feature({"postscale_gradients": False}, more={"prescale_gradients": True}),
    "predivide_factor": Feature({"gradient_predivide_factor": 2.0}, more={"gradient_predivide_factor": 2.0}),
    "communicate_fp32": Feature({"communication_data_type": "torch.float32"}, more={"communication_data_type": "fp32"}),
    "accumulate_fp32": Feature(
        {"get_data_types": "(torch.bfloat16, torch.float32)"}, more={"data_types": {"grad_accum_dtype": "fp32"}}
    ),
}


def _tell(engine: Any, path: str) -> Any:
    """What stands at a path of names from the engine: called where it is a method, as text where it is not plain."""
    found = engine
    for name in path.split("."):
        found = getattr(found, name)
    found = found() if callable(found) else found
    return found if isinstance(found, bool | int | float | str) else str(found)


def train_with_feature(setting: Setting) -> Observation:
    """Train with the feature on."""
    asked = training.question(setting.parameters)
    feature = FEATURES[setting["feature"]]
    made = {**training.config(asked, stage=setting["stage"], zero=feature.zero), **feature.more}
    tried = attempt(lambda: training.start(setting, asked, made))
    if tried.error is not None:
        return {"refused_feature": tried.error}
    session = tried.result
    progress = training.train(session, asked)
    told = {path: _tell(session.engine, path) for path in feature.told}
    groups = len(getattr(session.engine.optimizer, "fp16_groups", []))
    return finish(setting, session, progress, told=told, groups=groups)


NOT_YET = r"not yet supported with ZeRO-\d with reduce scatter enabled"


@case("zero/feature", train_with_feature)
def check_feature(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The oracle's training, whatever way ZeRO goes about it; the engine says that it went that way."""
    refused = [each.get("refused_feature") for each in observations]
    if any(refused):
        raise Unsupported(checks.every_rank_raised(refused, NOT_YET, str(axes["feature"])))
    feature = FEATURES[str(axes["feature"])]
    for rank, each in enumerate(observations):
        assert each["told"] == feature.told, f"rank {rank}: the engine says {each['told']}, expected {feature.told}"
        partitioned = {"persist_nothing": 6, "persist_everything": 0}.get(str(axes["feature"]))
        assert partitioned in (None, each["partitioned"]), f"rank {rank}: {each['partitioned']} tensors are partitioned"
        assert axes["feature"] != "sub_groups_small" or each["groups"] > 2, f"rank {rank}: {each['groups']} sub-groups"
    same_training(axes, observations, measured, training.question(axes))


# --- how the loop goes about it ------------------------------------------------------------------------------------


def _batches(asked: Question, step: int) -> list[Any]:
    import torch.distributed

    from conformance import models

    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return [
        models.micro_batch(asked.task, step, micro=micro, accumulation=asked.accumulation, rank=rank, world=world)
        for micro in range(asked.accumulation)
    ]


def _loss(session: Any, batch: Any) -> Any:
    device = session.engine.device
    return session.loss(session.engine(batch[0].to(device)), batch[1].to(device))


def no_sync(session: Any, asked: Question) -> training.Progress:
    """All micro-batches but the last without synchronisation."""
    progress = training.Progress()
    for step in range(asked.steps):
        losses = []
        *first, last = _batches(asked, step)
        with session.engine.no_sync():
            for batch in first:
                loss = _loss(session, batch)
                session.engine.backward(loss)
                losses.append(loss.item())
        loss = _loss(session, last)
        session.engine.set_gradient_accumulation_boundary(True)
        session.engine.backward(loss)
        session.engine.step()
        session.engine.set_gradient_accumulation_boundary(False)
        progress.losses.append((sum(losses) + loss.item()) / asked.accumulation)
    return progress


def manual_boundaries(session: Any, asked: Question) -> training.Progress:
    """The client says which micro-batch is the last, and steps once."""
    progress = training.Progress()
    for step in range(asked.steps):
        batches = _batches(asked, step)
        total = 0.0
        for number, batch in enumerate(batches):
            session.engine.set_gradient_accumulation_boundary(number == len(batches) - 1)
            loss = _loss(session, batch)
            session.engine.backward(loss)
            total += loss.item()
        session.engine.step()
        progress.losses.append(total / len(batches))
    return progress


def evaluate_between(session: Any, asked: Question) -> training.Progress:
    """An evaluation on other data before each step."""
    import torch

    from conformance import models

    progress = training.Progress()
    for step in range(asked.steps):
        session.engine.eval()
        with torch.no_grad():
            inputs, _ = models.global_batch(asked.task, 500 + step)
            session.engine(inputs.to(session.engine.device))
        session.engine.train()
        progress.losses += training.train(session, asked, first=step, steps=1).losses
    return progress


def torch_style_backward(session: Any, asked: Question) -> training.Progress:
    """loss.backward() in place of engine.backward(loss)."""
    progress = training.Progress()
    for step in range(asked.steps):
        batches = _batches(asked, step)
        total = 0.0
        for batch in batches:
            loss = _loss(session, batch)
            loss.backward()
            session.engine.step()
            total += loss.item()
        progress.losses.append(total / len(batches))
    return progress


LOOPS: dict[str, Callable[[Any, Question], training.Progress]] = {
    "no_sync": no_sync,
    "manual_boundaries": manual_boundaries,
    "evaluate_between": evaluate_between,
    "torch_style_backward": torch_style_backward,
}

LOOP_REFUSALS = {
    "no_sync": r"AssertionError: no_sync context manager is incompatible with gradient partitioning logic of ZeRO",
    "torch_style_backward": r"RuntimeError: Direct calls to tensor.backward\(\) are not supported",
}


def train_in_loop(setting: Setting) -> Observation:
    """Train with another loop than the usual one."""
    asked = training.question(setting.parameters)
    session = training.start(setting, asked, training.config(asked, stage=setting["stage"]))
    tried = attempt(lambda: LOOPS[setting["loop"]](session, asked))
    if tried.error is not None:
        return {"refused_loop": tried.error}
    return finish(setting, session, tried.result)


@case("zero/loop", train_in_loop)
def check_loop(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The oracle's training, whatever loop the client writes; what a stage cannot do it refuses."""
    refused = [each.get("refused_loop") for each in observations]
    if any(refused):
        pattern = LOOP_REFUSALS.get(str(axes["loop"]), "this loop is documented for every stage")
        raise Unsupported(checks.every_rank_raised(refused, pattern, str(axes["loop"])))
    same_training(axes, observations, measured, training.question(axes))


# --- how the model comes to the engine -----------------------------------------------------------------------------


def grouped_question(axes: Axes) -> Question:
    """The usual question with two parameter groups."""
    return dataclasses.replace(training.question(axes), grouped=True)


def train_groups(setting: Setting) -> Observation:
    """Train with two parameter groups."""
    from conformance import integrations, models
    from conformance.oracle.trajectory import groups

    asked = grouped_question(setting.parameters)
    model = models.build(asked.task, asked.seed)
    given = groups(dict(model.named_parameters()), dict(asked.optimizer.options))
    loss = models.task(asked.task).loss
    made = training.config(asked, stage=setting["stage"])
    session = integrations.start(setting, integrations.Training(model, made, loss, parameters=given))
    progress = training.train(session, asked)
    return finish(setting, session, progress, group_count=len(session.engine.optimizer.param_groups))


@case("zero/parameter_groups", train_groups)
def check_parameter_groups(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Each group keeps its own learning rate and weight decay."""
    assert [each["group_count"] for each in observations] == [2] * len(observations), "there are not two groups"
    same_training(axes, observations, measured, grouped_question(axes))


def train_from_unlike_starts(setting: Setting) -> Observation:
    """Each rank brings a model with other weights; rank 0's are the question's."""
    import torch.distributed

    from conformance import integrations, models
    from conformance.suites.collectives import connect

    asked = training.question(setting.parameters)
    connect(setting)
    model = models.build(asked.task, asked.seed + 1000 * torch.distributed.get_rank())
    loss = models.task(asked.task).loss
    made = training.config(asked, stage=setting["stage"])
    session = integrations.start(setting, integrations.Training(model, made, loss))
    return finish(setting, session, training.train(session, asked))


@case("zero/broadcast", train_from_unlike_starts)
def check_broadcast(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """All ranks start from rank 0's weights, whatever they brought."""
    same_training(axes, observations, measured, training.question(axes))


def train_in_pieces(setting: Setting) -> Observation:
    """Train a model that was partitioned as it was made; set and read its weights through GatheredParameters."""
    import deepspeed
    import torch

    from conformance import integrations, models
    from conformance.suites.collectives import connect

    asked = training.question(setting.parameters)
    made = training.config(asked, stage=3)
    connect(setting)
    with deepspeed.zero.Init(config_dict_or_path=made):
        model = models.task(asked.task).model()
    sizes = sorted({parameter.numel() for parameter in model.parameters()})
    wanted = models.build(asked.task, asked.seed).state_dict()
    for name, parameter in model.named_parameters():
        with deepspeed.zero.GatheredParameters(parameter, modifier_rank=0), torch.no_grad():
            if torch.distributed.get_rank() == 0:
                parameter.copy_(wanted[name])
    loss = models.task(asked.task).loss
    session = integrations.start(setting, integrations.Training(model, made, loss))
    return finish(setting, session, training.train(session, asked), sizes=sizes)


@case("zero/zero_init", train_in_pieces)
def check_zero_init(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """The model held nothing when it was made, and trains as one that was made whole."""
    for rank, each in enumerate(observations):
        assert each["sizes"] == [0], (
            f"rank {rank}: after zero.Init parameters held {each['sizes']} weights, expected none"
        )
    same_training(axes, observations, measured, training.question(axes), stage=3)


def train_checkpointed(setting: Setting) -> Observation:
    """Train with activations recomputed in the backward pass."""
    import deepspeed
    import torch.utils.checkpoint

    from conformance import integrations, models
    from conformance.suites.collectives import connect

    connect(setting)  # DeepSpeed's checkpointing asks for the ranks when it is configured
    asked = training.question(setting.parameters)
    model: Any = models.build(asked.task, asked.seed)
    calls = {"forward": 0}
    for block in model.blocks:
        original = block.forward

        def recomputed(hidden: Any, original: Any = original) -> Any:
            def counted(hidden: Any) -> Any:
                calls["forward"] += 1
                return original(hidden)

            if setting["by"] == "deepspeed":
                return deepspeed.checkpointing.checkpoint(counted, hidden)
            return torch.utils.checkpoint.checkpoint(counted, hidden, use_reentrant=setting["by"] == "torch_reentrant")

        block.forward = recomputed
    loss = models.task(asked.task).loss
    made = training.config(asked, stage=setting["stage"])
    if setting["by"] == "deepspeed":
        deepspeed.checkpointing.configure(mpu_=None, deepspeed_config=made)
    session = integrations.start(setting, integrations.Training(model, made, loss))
    progress = training.train(session, asked)
    return finish(setting, session, progress, forwards=calls["forward"])


@case("zero/activation_checkpointing", train_checkpointed)
def check_activation_checkpointing(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Every block runs twice for each micro-batch, and the numbers stay."""
    asked = training.question(axes)
    for rank, each in enumerate(observations):
        once = 2 * asked.steps * asked.accumulation
        assert each["forwards"] == 2 * once, (
            f"rank {rank}: the blocks ran {each['forwards']} times, expected {2 * once}"
        )
    same_training(axes, observations, measured, asked)


# --- several engines -----------------------------------------------------------------------------------------------


def train_two(setting: Setting) -> Observation:
    """Two engines in one process, their steps taken in turn."""
    asked = training.question(setting.parameters)
    other = training.reseeded(asked)
    made = training.config(asked, stage=setting["stage"])
    first, second = training.start(setting, asked, made), training.start(setting, other, made)
    progress, more = training.Progress(), training.Progress()
    for step in range(asked.steps):
        progress.losses += training.train(first, asked, first=step, steps=1).losses
        more.losses += training.train(second, other, first=step, steps=1).losses
    beside = training.report(second, more)
    second.engine.destroy()
    return finish(setting, first, progress, beside=beside)


@case("zero/two_engines", train_two)
def check_two_engines(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Each engine trains as if it were alone."""
    asked = training.question(axes)
    beside = [{**each, **each["beside"]} for each in observations]
    same_training(axes, beside, measured, training.reseeded(asked))
    same_training(axes, observations, measured, asked)


def train_again(setting: Setting) -> Observation:
    """An engine, its end, and another one in the same process."""
    asked = training.question(setting.parameters)
    made = training.config(asked, stage=setting["stage"])
    before = training.start(setting, training.reseeded(asked), made)
    training.train(before, asked, steps=2)
    before.stop()
    session = training.start(setting, asked, made)
    return finish(setting, session, training.train(session, asked))


@case("zero/rebuilt_engine", train_again)
def check_rebuilt_engine(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Nothing of the first engine, or of its process group, is left in the second."""
    same_training(axes, observations, measured, training.question(axes))


def overflow(setting: Setting) -> Observation:
    """Train in fp16 with a dynamic loss scale that begins too high."""
    asked = overflow_question(setting.parameters)
    made = training.config(asked, stage=setting["stage"])
    made["fp16"] = {"enabled": True, "initial_scale_power": 24, "hysteresis": 1}
    tried = attempt(lambda: training.start(setting, asked, made))
    if tried.error is not None:
        return {"supports_dtype": training.supports("fp16"), "refused": tried.error}
    session = tried.result
    progress = training.train(session, asked)
    return finish(setting, session, progress, scale=float(session.engine.optimizer.cur_scale))


def overflow_question(axes: Axes) -> Question:
    """More steps than are left out, beginning with a loss scale of 2^24."""
    return dataclasses.replace(training.question(axes, steps=10), loss_scale=2.0**24, halving=True)


@case("zero/overflow", overflow)
def check_overflow(axes: Axes, observations: list[Observation], measured: dict[str, float]) -> None:
    """Steps that overflow are left out and halve the loss scale, until one does not."""
    from conformance.oracle.trajectory import trajectory

    checks.refusal(observations, "fp16")
    asked = overflow_question(axes)
    left_out = sum(not math.isfinite(norm) for norm in trajectory(asked).gradient_norms)
    assert 0 < left_out < asked.steps, (
        f"the oracle leaves out {left_out} of {asked.steps} steps: the cell shows nothing"
    )
    for rank, each in enumerate(observations):
        assert each["skipped_steps"] == left_out, (
            f"rank {rank} left out {each['skipped_steps']} steps, expected {left_out}"
        )
        assert each["scale"] == 2.0 ** (24 - left_out), f"rank {rank}: the loss scale is {each['scale']}"
    same_training(axes, observations, measured, asked)
