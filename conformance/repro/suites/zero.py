"""The cells of suite zero in short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.model.setting import Axes
from conformance.oracle.question import Question
from conformance.repro.forms import Repro, Short, Training
from conformance.repro.literal import Code
from conformance.repro.tasks import ROWS, TASKS
from conformance.suites.common import training
from conformance.suites.zero import FEATURES, OPTIMIZERS, grouped_question, optimizer_question

SUBTLE, COARSE = 1e-3, 0.1
"""How far from plain float32 a right run may be: by the order of sums, and by rounding to 16 bits."""


def short_config(asked: Question, *, stage: int, zero: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The suite's config, with the batch size of all ranks together, and the options that the script calls OPTIONS."""
    made = training.config(asked, stage=stage, zero=zero)
    del made["train_micro_batch_size_per_gpu"], made["steps_per_print"]
    if asked.accumulation == 1:
        del made["gradient_accumulation_steps"]
    made["optimizer"] = optimizer_section(asked, made["optimizer"])
    return {"train_batch_size": ROWS, **made}


def optimizer_section(asked: Question, section: Mapping[str, Any]) -> dict[str, Any]:
    """A config's section in short: what the plain optimizer is given too is in OPTIONS."""
    own = {name: value for name, value in section["params"].items() if name not in dict(asked.optimizer.options)}
    return {"type": section["type"], "params": {Code("**OPTIONS"): Code(""), **own} if own else Code("OPTIONS")}


def train(axes: Axes, **changes: Any) -> Training | None:
    """Training that must be plain PyTorch's."""
    return training_of(axes, training.question(axes), **changes)


def training_of(axes: Axes, asked: Question, config: dict[str, Any] | None = None, **changes: Any) -> Training | None:
    """The same for any question."""
    # In bf16 an embedding or a normalisation near 1 is rounded by about as much as it moves in four steps.
    if asked.task not in TASKS or (asked.task, asked.dtype) == ("transformer", "bf16"):
        return None
    given: dict[str, Any] = {
        "config": short_config(asked, stage=int(axes["stage"])) if config is None else config,
        "task": TASKS[asked.task],
        "ranks": asked.world,
        "steps": asked.steps,
        "accumulation": asked.accumulation,
        "clipping": asked.clipping,
        "optimizer": asked.optimizer.name,
        "options": dict(asked.optimizer.options),
        "tolerance": SUBTLE if asked.dtype == "fp32" else COARSE,
    }
    return Training(**{**given, **changes})


def optimizer(axes: Axes) -> Repro | None:
    """By config, or one that a client hands over."""
    asked = optimizer_question(axes)
    name = str(axes["optimizer"])
    section = OPTIMIZERS[name][1]
    if name.startswith("cpu_"):
        return None
    config = short_config(asked, stage=int(axes["stage"]))
    del config["optimizer"]
    if name in ("sgd", "rmsprop"):
        config["zero_allow_untested_optimizer"] = True
    if section is not None:
        config["optimizer"] = optimizer_section(asked, section)
        return training_of(axes, asked, config)
    made = f"torch.optim.AdamW({{}}, {', '.join(f'{key}={value!r}' for key, value in asked.optimizer.options)})"
    begin = f"""
        module = Model()
        optimizer = {made.format("module.parameters()")}
        engine, *_ = deepspeed.initialize(model=module, optimizer=optimizer, config=CONFIG)
    """
    if name == "callable":
        begin = f"""
            optimizer = lambda parameters: {made.format("parameters")}
            engine, *_ = deepspeed.initialize(model=Model(), optimizer=optimizer, config=CONFIG)
        """
    return training_of(axes, asked, config, begin=begin)


def feature(axes: Axes) -> Repro | None:
    """A way to have ZeRO work; of round_robin_gradients, what its float32 fragments say."""
    wanted, asked = FEATURES[str(axes["feature"])], training.question(axes)
    config = {**short_config(asked, stage=int(axes["stage"]), zero=wanted.zero), **wanted.more}
    if axes["feature"] != "round_robin_gradients":
        return training_of(axes, asked, config)
    config["optimizer"] = {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}}
    return training_of(
        axes,
        asked,
        config,
        expected="safe_get_full_fp32_param gives the float32 copy of the parameter that it is asked for.",
        check="""
            for name, parameter in engine.module.named_parameters():
                found = deepspeed.utils.safe_get_full_fp32_param(parameter).to(parameter.dtype).flatten()
                wrong = int((found != parameter.flatten()).sum())
                rounded = f"the float32 copy rounded to {parameter.dtype}"
                assert not wrong, f"{wrong} of {found.numel()} weights of {name} are not {rounded}"
        """,
    )


LOOPS = {
    "no_sync": """
        *first, last = batches(step)[rank::RANKS]
        with engine.no_sync():
            for batch in first:
                engine.backward(loss_of(engine, *batch))
        engine.set_gradient_accumulation_boundary(True)
        engine.backward(loss_of(engine, *last))
        engine.step()
        engine.set_gradient_accumulation_boundary(False)
    """,
    "manual_boundaries": """
        own = batches(step)[rank::RANKS]
        for number, batch in enumerate(own):
            engine.set_gradient_accumulation_boundary(number == len(own) - 1)
            engine.backward(loss_of(engine, *batch))
        engine.step()
    """,
    "evaluate_between": """
        engine.eval()
        with torch.no_grad():
            loss_of(engine, *batches(500 + step)[0])
        engine.train()
        for batch in batches(step)[rank::RANKS]:
            engine.backward(loss_of(engine, *batch))
            engine.step()
    """,
    "torch_style_backward": """
        for batch in batches(step)[rank::RANKS]:
            loss_of(engine, *batch).backward()
            engine.step()
    """,
}


def loop(axes: Axes) -> Repro | None:
    """Another loop than the usual one."""
    return train(axes, loop=LOOPS[str(axes["loop"])])


def parameter_groups(axes: Axes) -> Repro | None:
    """Biases with a rate and a decay of their own."""
    functions = """
        def groups(module):
            biases = [each for each in module.parameters() if each.dim() == 1]
            others = [each for each in module.parameters() if each.dim() > 1]
            return [{"params": others}, {"params": biases, "lr": 0.005, "weight_decay": 0.0}]
    """
    begin = """
        module = Model()
        engine, *_ = deepspeed.initialize(model=module, model_parameters=groups(module), config=CONFIG)
    """
    given: dict[str, Any] = {"functions": functions, "begin": begin, "plain_parameters": "groups(plain)"}
    return training_of(axes, grouped_question(axes), None, **given)


def broadcast(axes: Axes) -> Repro | None:
    """Each rank brings other weights; rank 0's count."""
    return train(axes, begin="engine, *_ = deepspeed.initialize(model=Model(1000 * rank), config=CONFIG)")


def rebuilt_engine(axes: Axes) -> Repro | None:
    """An engine, its end, and another one in the same process."""
    begin = """
        engine, *_ = deepspeed.initialize(model=Model(seed=1000), config=CONFIG)
        engine.destroy()
        deepspeed.comm.destroy_process_group()
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)  # the first store may still be there
        engine, *_ = deepspeed.initialize(model=Model(), config=CONFIG)
    """
    return train(axes, begin=begin)


SHORT: dict[str, dict[str, Short]] = {
    "deepspeed": {
        "train": train,
        "four": train,
        "model": train,
        "uncommon_parameter": train,
        "outputs": train,
        "optimizer": optimizer,
        "feature": feature,
        "loop": loop,
        "parameter_groups": parameter_groups,
        "broadcast": broadcast,
        "rebuilt_engine": rebuilt_engine,
    },
}
"""By the names of integrations and cases."""
