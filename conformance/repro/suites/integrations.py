"""The cells of suite integrations in short: Accelerate and the Trainer, each beside DeepSpeed alone."""

from __future__ import annotations

from typing import Any

from conformance.model.setting import Axes
from conformance.repro.forms import Call, Repro, Short, Training
from conformance.repro.suites import zero
from conformance.repro.suites.initialize import config as tiny
from conformance.repro.tasks import ROWS
from conformance.suites.common import training
from conformance.suites.integrations import accumulating, clipped

ACCELERATOR = """
    given = {{"deepspeed_plugin": accelerate.DeepSpeedPlugin(hf_ds_config=CONFIG), "gradient_accumulation_steps": {0}}}
    gloo = accelerate.InitProcessGroupKwargs(backend="gloo")  # or each rank takes itself for the only one
    accelerator, module = accelerate.Accelerator(**given, kwargs_handlers=[gloo]), Model()
    engine, optimizer = accelerator.prepare(module, accelerate.utils.DummyOptim(list(module.parameters())))
"""
STEP = """
    for batch in batches(step)[rank::RANKS]:
        accelerator.backward(loss_of(engine, *batch))
        optimizer.step()
        optimizer.zero_grad()
"""
NO_SYNC = """
    *first, last = batches(step)[rank::RANKS]
    for batch in first:
        with accelerator.no_sync(engine):
            accelerator.backward(loss_of(engine, *batch))
    accelerator.backward(loss_of(engine, *last))
    optimizer.step()
    optimizer.zero_grad()
"""
CLIP = """
    for batch in batches(step)[rank::RANKS]:
        accelerator.backward(loss_of(engine, *batch))
        accelerator.clip_grad_norm_(engine.parameters(), {0})
        optimizer.step()
        optimizer.zero_grad()
"""
STEPS = """
    found = engine.global_steps
    assert found == STEPS, f"the engine took {found} steps of {MICRO_BATCHES} micro-batches, expected {STEPS}"
"""


def _training(axes: Axes, asked: Any, **changes: Any) -> Training | None:
    config = zero.short_config(asked, stage=int(axes["stage"]))
    del config["train_batch_size"]
    config = {"train_micro_batch_size_per_gpu": ROWS // asked.terms, **config}
    if changes.get("check"):
        config["optimizer"] = {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}}
    begin = ACCELERATOR.format(asked.accumulation)
    return zero.training_of(axes, asked, config, begin=begin, **changes)


def accumulation(axes: Axes) -> Repro | None:
    """Two micro-batches a step, by a loop that leaves the counting to DeepSpeed."""
    loop = {"plain": STEP, "no_sync": NO_SYNC}.get(str(axes["loop"]))
    return None if loop is None else _training(axes, accumulating(axes), loop=loop, check=STEPS)


def clipping(axes: Axes) -> Repro | None:
    """Clipping by the loop."""
    asked = clipped(axes)
    made = _training(axes, asked, loop=CLIP.format(training.CLIPPING) if axes["asked"] != "config" else STEP)
    if made is not None and axes["asked"] == "loop":
        made.config["gradient_clipping"] = 0.0  # type: ignore[index]
    return made


def schedule(axes: Axes) -> Repro | None:
    """A schedule that is handed over is stepped once a step."""
    if axes["given"] != "object":
        return None
    body = """
        gloo = accelerate.InitProcessGroupKwargs(backend="gloo")  # or each rank takes itself for the only one
        plugin = accelerate.DeepSpeedPlugin(hf_ds_config=CONFIG)
        accelerator = accelerate.Accelerator(deepspeed_plugin=plugin, kwargs_handlers=[gloo])
        model, rates = torch.nn.Linear(4, 2), []
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
        engine, optimizer, decay = accelerator.prepare(model, optimizer, decay)
        for _ in range(3):
            rates += [round(rate, 6) for rate in engine.get_lr()]
            accelerator.backward(engine(torch.ones(2, 4)).sum())
            optimizer.step()
            decay.step()
            optimizer.zero_grad()
        assert rates == [0.01, 0.008, 0.0064], f"the learning rates are {rates}, expected [0.01, 0.008, 0.0064]"
    """
    return Call(config=tiny(stage=int(axes["stage"]), optimizer=None), ranks=int(axes["world"]), body=body)


def knows_its_ranks(axes: Axes) -> Repro | None:
    """Accelerate knows as many ranks as there are."""
    body = """
        accelerator = accelerate.Accelerator(deepspeed_plugin=accelerate.DeepSpeedPlugin(hf_ds_config=CONFIG))
        model = torch.nn.Linear(4, 2)
        accelerator.prepare(model, accelerate.utils.DummyOptim(list(model.parameters())))
        says, world = (accelerator.process_index, accelerator.num_processes), torch.distributed.get_world_size()
        told = f"the integration says that this is rank {says[0]} of {says[1]}, and it is rank {rank} of {world}"
        assert says == (rank, world), f"rank {rank}: {told}"
    """
    return Call(config=tiny(stage=1), ranks=int(axes["world"]), body=body)


def client_optimizer(axes: Axes) -> Repro | None:
    """The Trainer trains with the optimizer that it is handed."""
    functions = """
        class Trainer(transformers.Trainer):
            def get_train_dataloader(self):
                return [{"input": torch.ones(2, 4)}]

            def compute_loss(self, model, inputs, *_, **__):
                return model(inputs["input"]).sum()
    """
    body = """
        model = torch.nn.Linear(4, 2)
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        arguments = {"per_device_train_batch_size": 2, "max_steps": 1, "save_strategy": "no", "report_to": []}
        arguments = transformers.TrainingArguments(".", deepspeed=CONFIG, max_grad_norm=0.0, **arguments)
        trainer = Trainer(model=model, args=arguments, optimizers=(sgd, None))
        trainer.train()
        found = type(trainer.model_wrapped.basic_optimizer)
        assert found is torch.optim.SGD, f"{found} trained, torch.optim.sgd.SGD was handed over"
    """
    config = tiny(stage=int(axes["stage"]), optimizer=None, gradient_clipping=0.0)
    config["zero_allow_untested_optimizer"] = True
    return Call(config=config, ranks=int(axes["world"]), functions=functions, body=body, uses_folder=True)


SHORT: dict[str, dict[str, Short]] = {
    "accelerate": {
        "accumulation": accumulation,
        "clipping": clipping,
        "schedule": schedule,
        "knows_its_ranks": knows_its_ranks,
    },
    "transformers": {"client_optimizer": client_optimizer},
}
"""By the names of integrations and cases."""
