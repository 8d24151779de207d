"""The cells of suite initialize in short."""

from __future__ import annotations

from typing import Any

from conformance.model.setting import Axes
from conformance.repro.forms import Call, Repro, Short
from conformance.repro.snippets import lines, refused
from conformance.suites.common.observing import LEARNING_RATE, MICRO_BATCH

STEP = """
    loss = engine(torch.ones({rows}, 4, device=engine.device)).sum()
    engine.backward(loss)
    engine.step()
"""
"""Code of a step of training."""


def config(*, stage: int = 0, **changes: Any) -> dict[str, Any]:
    """The suite's config in short; a change to None takes a key away."""
    made: dict[str, Any] = {"train_micro_batch_size_per_gpu": MICRO_BATCH}
    if stage:
        made["zero_optimization"] = {"stage": stage}
    made["optimizer"] = {"type": "AdamW", "params": {"lr": LEARNING_RATE, "torch_adam": True}}
    return {key: value for key, value in {**made, **changes}.items() if value is not None}


def step(rows: int = MICRO_BATCH) -> str:
    """Code of a step of training."""
    return STEP.format(rows=rows)


def call(axes: Axes, *code: str, **changes: Any) -> Call | None:
    """Lines in each rank; only for the bare call."""
    if axes.get("call", "deepspeed") != "deepspeed":
        return None
    given: dict[str, Any] = {"config": config(stage=int(axes.get("stage", 0))), "ranks": int(axes.get("world", 1))}
    return Call(**{**given, "body": lines(*code), **changes})


INITIALIZE = "engine, *_ = deepspeed.initialize(model=torch.nn.Linear(4, 2), config=CONFIG)"


def args_omitted(axes: Axes) -> Repro | None:
    """Without args, with None and with empty ones."""
    other = """
        for args in (None, argparse.Namespace()):
            engine, *_ = deepspeed.initialize(args, torch.nn.Linear(4, 2), config=CONFIG)
            assert isinstance(engine.basic_optimizer, torch.optim.AdamW), f"trains with {type(engine.basic_optimizer)}"
    """
    return call(axes, INITIALIZE, step(), other, expected="Each of the three engines trains with torch's AdamW.")


def open_mpi_local_rank(axes: Axes) -> Repro | None:
    """OMPI_COMM_WORLD_LOCAL_RANK in place of LOCAL_RANK, or beside it."""
    value = str(axes["value"])
    if value == "different":
        return None
    start = """
        torch.distributed.init_process_group("gloo")
        os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] = str(rank)
    """
    alone = 'del os.environ["LOCAL_RANK"]' if value.startswith("alone") else ""
    args = "argparse.Namespace(local_rank=rank)" if value.endswith("_with_args") else "None"
    initialize = f"engine, *_ = deepspeed.initialize({args}, torch.nn.Linear(4, 2), config=CONFIG)"
    return call(axes, start, alone, initialize, step())


def scheduler(axes: Axes) -> Repro | None:
    """By config or by a callable: the rate halves after each step."""
    by_config = {"type": "StepLR", "params": {"step_size": 1, "gamma": 0.5}}
    changes: dict[str, Any] = {"scheduler": by_config} if axes["kind"] == "torch_by_config" else {}
    begin = INITIALIZE
    if axes["kind"] == "callable":
        begin = lines(
            "halving = lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)",
            INITIALIZE.replace(", config", ", lr_scheduler=halving, config"),
        )
    elif not changes:
        return None
    judge = """
        rate = engine.get_lr()
        assert rate == [0.005], f"the rate after one step is {rate}, expected [0.005]"
    """
    return call(axes, begin, step(), judge, config=config(stage=int(axes["stage"]), **changes))


def scheduler_of_another_optimizer(axes: Axes) -> Repro | None:
    """A scheduler object whose optimizer the engine does not use."""
    by_config = axes["optimizer"] == "config"
    given = "" if by_config else "optimizer=adamw, "
    adamw = "" if by_config else "adamw = lambda parameters: torch.optim.AdamW(parameters, lr=0.01)"
    code = f"""
        model = torch.nn.Linear(4, 2)
        other = torch.optim.SGD(model.parameters(), lr=0.01)
        halving = torch.optim.lr_scheduler.StepLR(other, step_size=1, gamma=0.5)
        try:
            engine, *_ = deepspeed.initialize(model=model, {given}lr_scheduler=halving, config=CONFIG)
        except AssertionError:
            return
        rates = [engine.get_lr()]
        for _ in range(2):
            engine.backward(engine(torch.ones(2, 4, device=engine.device)).sum())
            engine.step()
            rates.append(engine.get_lr())
        raise AssertionError(f"accepted, giving an engine whose rates were {{rates}}, not refused and not halved")
    """
    return call(axes, adamw, code, config=config() if by_config else config(optimizer=None))


def config_refused(axes: Axes) -> Repro | None:
    """What is no config is refused, with a word about the config."""
    given = {
        "path_object": "pathlib.Path('config.json')",
        "number": "3",
        "list": "[{'train_batch_size': 2}]",
        "missing_file": "'missing.json'",
    }.get(str(axes["wrong"]))
    if given is None:
        return None
    initialize = f"deepspeed.initialize(model=torch.nn.Linear(4, 2), config={given})"
    return call(axes, refused(initialize, '"deepspeed config" in text', "a word about the config"), config=None)


def group_timeout(axes: Axes) -> Repro | None:
    """How long collectives wait."""
    if axes["given"] != "nothing":
        return None
    judge = """
        backend = torch.distributed.group.WORLD._get_backend(engine.device)
        seconds = backend.options._timeout.total_seconds()
        assert seconds == 600, f"the group waits {seconds} s, expected 600 s"
    """
    return call(axes, INITIALIZE, judge)


def returned(axes: Axes) -> Repro | None:
    """The engine that comes back trains."""
    return call(axes, INITIALIZE, step())


SHORT: dict[str, dict[str, Short]] = {
    "deepspeed": {
        "args_omitted": args_omitted,
        "open_mpi_local_rank": open_mpi_local_rank,
        "scheduler": scheduler,
        "scheduler_of_another_optimizer": scheduler_of_another_optimizer,
        "config_refused": config_refused,
        "group_timeout": group_timeout,
        "returned": returned,
    },
}
"""By the names of integrations and cases."""
