"""Starting DeepSpeed: what `initialize` takes, what it refuses, and what it gives back.

Every scenario that succeeds also trains, so that "it returned" never passes for "it works".
"""

from __future__ import annotations

import base64
import codecs
import copy
import datetime
import functools
import json
import locale
import os
import sys
from argparse import Namespace
from collections import UserDict, UserList
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

from conformance.hosts import locales
from conformance.model.case import Step, case
from conformance.model.setting import Axes, Observation, Setting
from conformance.model.verdict import Unsupported
from conformance.suites.common.circumstances import without_module
from conformance.suites.common.expecting import (
    TORCH_ADAMW,
    assert_refused,
    assert_same_everywhere,
    assert_works,
    proofs_in,
)
from conformance.suites.common.observing import (
    LEARNING_RATE,
    adamw,
    attempt,
    class_of,
    for_launcher,
    prove,
    samples,
    starter,
    tiny_config,
    tiny_model,
)

NO_MODEL = "deepspeed.initialize requires a model"
NO_CONFIG = "DeepSpeed requires --deepspeed_config to specify configuration file"
TWO_CONFIGS = "we were given deepspeed configs in the deepspeed arguments and deepspeed.initialize() function call"
BAD_CONFIG = "Expected a string path to an existing deepspeed config, or a dictionary or a valid base64"
BATCH_TRIPLE = "train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size"
NO_BATCH = "Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided"
VALIDATION_ERROR = "pydantic_core._pydantic_core.ValidationError"
REFERENCE = "conformance.reference.errors"


def distributed_is_up() -> bool:
    """Whether torch.distributed has a default group in this process."""
    import torch

    return torch.distributed.is_initialized()


# Calling it: args, model and config


def start_without_args(setting: Setting) -> Observation:
    config = tiny_config(zero_optimization={"stage": setting["stage"]})
    omitted = starter(setting)(model=tiny_model(), config=config)
    observed = {"omitted": prove(omitted[0], setting)}
    if setting["call"] == "deepspeed":
        observed["none"] = prove(starter(setting)(args=None, model=tiny_model(), config=config)[0], setting)
        observed["empty"] = prove(starter(setting)(args=Namespace(), model=tiny_model(), config=config)[0], setting)
    return observed


@case("initialize/args_omitted", start_without_args)
def check_args_omitted(axes: Axes, observations: list[Observation]) -> None:
    for form in ("omitted", "none", "empty") if axes["call"] == "deepspeed" else ("omitted",):
        assert_works(proofs_in(observations, form), stage=int(axes["stage"]))
        for rank, observation in enumerate(observations):
            assert observation[form]["digest"] == observation["omitted"]["digest"], (
                f"rank {rank}: {form} differs from omitted"
            )


def call_in_some_form(setting: Setting) -> Observation:
    import deepspeed

    config, path = tiny_config(), setting.folder / f"config-{os.getpid()}.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    model, start = tiny_model(), starter(setting)
    forms: dict[str, Callable[[], tuple[Any, ...]]] = {
        "keyword": lambda: start(model=model, config=config),
        "positional": lambda: start(Namespace(local_rank=-1), model, config=config),
        "positional_none": lambda: start(None, model, config=config),
        "every_position": lambda: deepspeed.initialize(
            None,
            model,
            None,  # optimizer
            None,  # model_parameters
            None,  # training_data
            None,  # lr_scheduler
            for_launcher(setting).get("distributed_port", 29500),
            None,  # mpu
            None,  # dist_init_required
            None,  # collate_fn
            config,
            None,  # mesh_param
            None,  # config_params
        ),
        "config_params": lambda: start(model=model, config_params=config),
        "config_params_path": lambda: start(model=model, config_params=str(path)),
        "args_with_dict": lambda: start(Namespace(deepspeed_config=config), model),
        "args_with_path": lambda: start(Namespace(deepspeed_config=str(path)), model),
        "args_of_others": lambda: start(
            Namespace(deepspeed_config=None, learning_rate=3, deepspeed=True), model, config=config
        ),
    }
    return prove(forms[setting["form"]]()[0], setting)


@case("initialize/call_form", call_in_some_form)
def check_call_form(observations: list[Observation]) -> None:
    assert_works(observations)


def pass_model_first(setting: Setting) -> Observation:
    start = starter(setting)
    return {"started": attempt(lambda: prove(start(tiny_model(), config=tiny_config())[0], setting))}


@case("initialize/model_first", pass_model_first)
def check_model_first(axes: Axes, observations: list[Observation]) -> None:
    if axes["call"] == "reference":
        assert_works(proofs_in(observations, "started"))
    else:
        assert_refused(observations, "started", "AssertionError", NO_MODEL)


def leave_model_out(setting: Setting) -> Observation:
    models: dict[str, Any] = {
        "none": None,
        "class": type(tiny_model()),
        "optimizer": adamw(tiny_model().parameters()),
    }
    given = {} if setting["given"] == "nothing" else {"model": models[setting["given"]]}
    return {"attempt": attempt(lambda: starter(setting)(config=tiny_config(), **given)[0]), "up": distributed_is_up()}


@case("initialize/model_missing", leave_model_out)
def check_model_missing(axes: Axes, observations: list[Observation]) -> None:
    error, says = {
        ("deepspeed", "nothing"): ("AssertionError", NO_MODEL),
        ("deepspeed", "none"): ("AssertionError", NO_MODEL),
        ("reference", "nothing"): ("TypeError", "missing 1 required positional argument: 'model'"),
        ("reference", "none"): (f"{REFERENCE}.ModelError", "model: found a NoneType; expected a torch.nn.Module"),
        ("reference", "class"): (f"{REFERENCE}.ModelError", "model: found a type; expected a torch.nn.Module"),
        ("reference", "optimizer"): (f"{REFERENCE}.ModelError", "model: found a AdamW; expected a torch.nn.Module"),
    }[(str(axes["call"]), str(axes["given"]))]
    assert_refused(observations, "attempt", error, says)
    assert not any(seen["up"] for seen in observations), "torch.distributed was started before the model was missed"


def leave_config_out(setting: Setting) -> Observation:
    start = starter(setting)
    choices: dict[str, dict[str, Any]] = {
        "nothing": {},
        "none": {"config": None},
        "empty_args": {"args": Namespace()},
        "none_in_args": {"args": Namespace(deepspeed_config=None)},
        "args_is_a_dict": {"args": {"deepspeed_config": tiny_config()}},
    }
    refused = attempt(lambda: start(model=tiny_model(), **choices[setting["given"]])[0])
    up = distributed_is_up()
    return {"attempt": refused, "up": up, "after": prove(start(model=tiny_model(), config=tiny_config())[0], setting)}


@case("initialize/config_missing", leave_config_out)
def check_config_missing(axes: Axes, observations: list[Observation]) -> None:
    error, says = "AssertionError", NO_CONFIG
    if axes["call"] == "reference":
        error, says = {
            "nothing": ("TypeError", "missing 1 required positional argument: 'config'"),
            "none": (f"{REFERENCE}.ConfigError", "config: found NoneType None; expected a dict, or the path of"),
        }[str(axes["given"])]
    assert_refused(observations, "attempt", error, says)
    up = axes["call"] == "deepspeed"  # the reference refuses what it can before the ranks meet
    for rank, seen in enumerate(observations):
        assert seen["up"] == up, (
            f"rank {rank}: torch.distributed up: {seen['up']} when the config was missed, expected {up}"
        )
    assert_works(proofs_in(observations, "after"))


def give_config_and_config_params(setting: Setting) -> Observation:
    second = tiny_config(train_micro_batch_size_per_gpu=5)
    return prove(starter(setting)(model=tiny_model(), config=tiny_config(), config_params=second)[0], setting)


@case("initialize/config_beats_config_params", give_config_and_config_params)
def check_config_beats_config_params(observations: list[Observation]) -> None:
    assert_works(observations, micro_batch=2)


def give_config_twice(setting: Setting) -> Observation:
    start = starter(setting)
    args, second = Namespace(deepspeed_config=tiny_config()), {str(setting["second"]): tiny_config()}
    return {"attempt": attempt(lambda: start(args, tiny_model(), **second)[0])}


@case("initialize/config_twice", give_config_twice)
def check_config_twice(observations: list[Observation]) -> None:
    assert_refused(observations, "attempt", "AssertionError", TWO_CONFIGS)


def give_deepscale_config(setting: Setting) -> Observation:
    config, start = tiny_config(), starter(setting)
    args = Namespace(deepscale_config=config)
    if setting["beside"] != "nothing":
        args.deepspeed_config = None if setting["beside"] == "none" else config
    started = attempt(lambda: prove(start(args, tiny_model())[0], setting))
    return {"started": started, "moved": args.deepscale_config is None and args.deepspeed_config is config}


@case("initialize/deepscale_config", give_deepscale_config)
def check_deepscale_config(axes: Axes, observations: list[Observation]) -> None:
    if axes["beside"] == "deepspeed_config":
        says = "we were given both a deepscale_config and deepspeed_config"
        assert_refused(observations, "started", "AssertionError", says)
        return
    assert_works(proofs_in(observations, "started"))
    assert all(seen["moved"] for seen in observations), "args.deepscale_config was not moved to args.deepspeed_config"


# The config and its forms

HJSON = """\
# a comment
{{
  // another one
  train_micro_batch_size_per_gpu: {train_micro_batch_size_per_gpu},  /* and a third */
  "optimizer": {optimizer},
  gradient_clipping: 0.0
  "steps_per_print": 1000000,
}}
"""


def encoded(text: str) -> str:
    """Url-safe base64 of UTF-8, as `config` takes it."""
    return base64.urlsafe_b64encode(text.encode()).decode()


def give_config_in_some_form(setting: Setting) -> Observation:
    config, form = tiny_config(), str(setting["form"])
    folder = setting.folder / f"process {os.getpid()} größe 設定"
    folder.mkdir()
    path = folder / "config.json"
    text = json.dumps(config)
    if form == "hjson":
        text = HJSON.format(**{key: json.dumps(value) for key, value in config.items()})
    path.write_text(text, encoding="utf-8-sig" if form == "byte_order_mark" else "utf-8")
    if form == "relative_path":
        os.chdir(folder)
    given: Any = {
        "dict": config,
        "path": str(path),
        "relative_path": path.name,
        "hjson": str(path),
        "byte_order_mark": str(path),
        "path_object": path,
        "base64": encoded(text),
        "base64_with_comment": encoded("# größe\n" + text),
        "base64_with_duplicate": encoded('{"train_micro_batch_size_per_gpu": 7, ' + text[1:]),
        "args_with_base64": encoded(text),
    }[form]
    if form == "args_with_base64":
        engine = starter(setting)(args=Namespace(deepspeed_config=given), model=tiny_model())[0]
    else:
        engine = starter(setting)(model=tiny_model(), config=given)[0]
    return prove(engine, setting)


@case("initialize/config_form", give_config_in_some_form)
def check_config_form(observations: list[Observation]) -> None:
    assert_works(observations)


def give_wrong_config(setting: Setting) -> Observation:
    wrong, start = str(setting["wrong"]), starter(setting)
    path = setting.folder / f"config-{os.getpid()}.json"
    contents = {
        "duplicate_key": '{"train_batch_size": 2, "train_batch_size": 4}',
        "duplicate_inner_key": '{"train_batch_size": 2, "zero_optimization": {"stage": 1, "stage": 2}}',
        "broken_file": '{"train_batch_size": ',
        "list_in_file": '[{"train_batch_size": 2}]',
        "latin1_file": '{"train_batch_size": 2, "größe": 3}',
        "empty_file": "",
    }
    config: Any = {
        "path_object": path,
        "number": 3,
        "bytes": json.dumps(tiny_config()).encode(),
        "list": [tiny_config()],
        "missing_file": str(setting.folder / "missing.json"),
        "missing_relative_file": "ds_config",
        "base64": encoded(json.dumps(tiny_config())),
        "broken_base64": encoded('{"train_batch_size": '),
        "folder": str(setting.folder),
        "empty_text": "",
    }.get(wrong, str(path))
    text = contents.get(wrong, json.dumps(tiny_config()))
    path.write_text(text, encoding="latin-1" if wrong == "latin1_file" else "utf-8")
    return {"attempt": attempt(lambda: start(model=tiny_model(), config=config)[0])}


@case("initialize/config_refused", give_wrong_config)
def check_config_refused(axes: Axes, observations: list[Observation]) -> None:
    wrong, folder_error = str(axes["wrong"]), "PermissionError" if sys.platform == "win32" else "IsADirectoryError"
    if axes["call"] == "reference":
        error, says = (
            f"{REFERENCE}.ConfigError",
            {
                "number": "config: found int 3; expected a dict, or the path of",
                "bytes": "config: found bytes b'{",
                "list": "config: found list [{",
                "missing_file": "missing.json: found ",
                "missing_relative_file": "config ds_config: found ",
                "base64": "expected a JSON or Hjson file",
                "folder": "expected a JSON or Hjson file",
                "duplicate_key": "found train_batch_size more than once in one object; expected each key once",
                "duplicate_inner_key": "found stage more than once in one object; expected each key once",
                "broken_file": "line 1 column 22",
                "list_in_file": "found a list; expected an object",
                "latin1_file": "is not UTF-8; expected UTF-8 text",
            }[wrong],
        )
    else:
        error, says = {
            "duplicate_key": ("ValueError", "Duplicate keys in DeepSpeed config: ['train_batch_size']"),
            "duplicate_inner_key": ("ValueError", "Duplicate keys in DeepSpeed config: ['stage']"),
            "broken_file": ("hjson.scanner.HjsonDecodeError", "line 1 column 22"),
            "empty_file": ("AssertionError", NO_BATCH),
            "empty_text": ("AssertionError", NO_BATCH),
            "folder": (folder_error, "Errno"),
        }.get(wrong, ("ValueError", BAD_CONFIG))
    assert_refused(observations, "attempt", error, says)


def keep_using_the_dict(setting: Setting) -> Observation:
    config = tiny_config(zero_optimization={"stage": setting["stage"]})
    pristine = copy.deepcopy(config)
    engine = starter(setting)(model=tiny_model(), config=config)[0]
    observed = {"first": prove(engine, setting), "unchanged": config == pristine}
    observed["second"] = prove(starter(setting)(model=tiny_model(), config=config)[0], setting)
    config["train_micro_batch_size_per_gpu"] = 9
    config["optimizer"]["params"]["lr"] = 5.0
    return {
        **observed,
        "outer_change_seen": engine.train_micro_batch_size_per_gpu() == 9,
        "inner_change_seen": engine.optimizer_params()["lr"] == 5.0,
    }


@case("initialize/caller_dict", keep_using_the_dict)
def check_caller_dict(axes: Axes, observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "first"), stage=int(axes["stage"]))
    assert_works(proofs_in(observations, "second"), stage=int(axes["stage"]))
    for rank, seen in enumerate(observations):
        assert seen["unchanged"], f"rank {rank}: initialize changed the caller's dict"
        assert seen["first"]["digest"] == seen["second"]["digest"], f"rank {rank}: the same dict gave other weights"
        assert not seen["outer_change_seen"], f"rank {rank}: a later change of a top-level key reached the engine"
        shared = axes["call"] == "deepspeed"  # DeepSpeed copies the top level only, the reference all of it
        found = seen["inner_change_seen"]
        assert found == shared, (
            f"rank {rank}: a later change of an inner table reached the engine: {found}, expected {shared}"
        )


def add_unknown_key(setting: Setting) -> Observation:
    config = tiny_config(zero_optimization={"stage": 1}, fp16={"enabled": False}, bf16={"enabled": False})
    table = config if setting["table"] == "top_level" else config[setting["table"]]
    table["no_such_key"] = 1
    return {"started": attempt(lambda: prove(starter(setting)(model=tiny_model(), config=config)[0], setting))}


@case("initialize/unknown_key", add_unknown_key)
def check_unknown_key(axes: Axes, observations: list[Observation]) -> None:
    if axes["table"] == "top_level":
        if axes["call"] == "reference":
            assert_refused(
                observations, "started", f"{REFERENCE}.ConfigError", "config: found top-level key 'no_such_key'"
            )
        else:
            assert_works(proofs_in(observations, "started"), stage=1)
        return
    assert_refused(observations, "started", VALIDATION_ERROR, "no_such_key\n  Extra inputs are not permitted")


def give_config_of_other_classes(setting: Setting) -> Observation:
    """Train with a config of read-only mappings, sequences and numpy's numbers; then read the checkpoint's config."""
    import numpy
    import torch

    plain = tiny_config(zero_optimization={"stage": setting["stage"]})
    rate, betas = numpy.float64(plain["optimizer"]["params"]["lr"]), UserList([numpy.float32(0.5), 0.75])
    optimizer = {"type": "AdamW", "params": MappingProxyType({"lr": rate, "torch_adam": numpy.True_, "betas": betas})}
    foreign = {"optimizer": MappingProxyType(optimizer), "zero_optimization": UserDict(plain["zero_optimization"])}
    engine = starter(setting)(model=tiny_model(), config=MappingProxyType(plain | foreign))[0]
    proof = prove(engine, setting, optimizer=functools.partial(torch.optim.AdamW, lr=float(rate), betas=(0.5, 0.75)))
    engine.save_checkpoint(str(setting.folder), tag="one")
    torch.distributed.barrier()  # rank 0 writes the file
    saved = torch.load(setting.folder / "one" / "mp_rank_00_model_states.pt", weights_only=True)["ds_config"]
    return {"proof": proof, "saved": {key: saved[key] for key in ("optimizer", "zero_optimization")}}


@case("initialize/config_classes", give_config_of_other_classes)
def check_config_classes(axes: Axes, observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "proof"), stage=int(axes["stage"]))
    expected = {
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True, "betas": [0.5, 0.75]}},
        "zero_optimization": {"stage": axes["stage"]},
    }
    for rank, seen in enumerate(observations):
        assert seen["saved"] == expected, f"rank {rank}: the checkpoint holds {seen['saved']}, expected {expected}"


def give_what_deepspeed_ignores(setting: Setting) -> Observation:
    import torch

    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(8))

    class Unsized(torch.utils.data.Dataset[int]):
        def __getitem__(self, index: int) -> int:
            return index

    changes: dict[str, dict[str, Any]] = {
        "auto_rate": {"optimizer": {"type": "AdamW", "params": {"lr": "auto", "torch_adam": True}}},
        "auto_fp16": {"fp16": {"enabled": "auto"}},
        "sequence_parallel": {"sequence_parallel_size": 2},
    }
    data = {"iterable_data": Stream(), "unsized_data": Unsized()}.get(str(setting["wrong"]))
    config = tiny_config(**changes.get(str(setting["wrong"]), {}))
    tried = attempt(lambda: starter(setting)(model=tiny_model(), config=config, training_data=data)[0])
    return {"attempt": tried, "met": torch.distributed.is_initialized()}


@case("initialize/refused_before_meeting", give_what_deepspeed_ignores)
def check_refused_before_meeting(axes: Axes, observations: list[Observation]) -> None:
    error, says = {
        "auto_rate": ("ConfigError", 'config: found "auto" for optimizer.params.lr; expected '),
        "auto_fp16": ("ConfigError", 'config: found "auto" for fp16.enabled; expected '),
        "iterable_data": ("DataError", "training_data: found a Stream, without __len__; expected "),
        "unsized_data": ("DataError", "training_data: found a Unsized, without __len__; expected "),
        "sequence_parallel": ("ConfigError", "config sequence_parallel_size: found 2, without an mpu"),
    }[str(axes["wrong"])]
    assert_refused(observations, "attempt", f"{REFERENCE}.{error}", says)
    assert not any(seen["met"] for seen in observations), "torch.distributed was started before the refusal"


def give_wrong_stage(setting: Setting) -> Observation:
    import pydantic

    config = tiny_config(zero_optimization={"stage": setting["stage"]})
    told = attempt(lambda: starter(setting)(model=tiny_model(), config=config)[0])
    return {"attempt": told, "pydantic": [int(part) for part in pydantic.VERSION.split(".")[:2]]}


@case("initialize/stage_refused", give_wrong_stage)
def check_stage_refused(axes: Axes, observations: list[Observation]) -> None:
    # pydantic before 2.7 says of a word, and only of one, that it is no integer.
    no_number = axes["stage"] == "two" and all(tuple(each["pydantic"]) < (2, 7) for each in observations)
    says = "a valid integer, unable to parse string" if no_number else "0, 1, 2, 3"
    assert_refused(observations, "attempt", VALIDATION_ERROR, f"stage\n  Input should be {says}")


def leave_batch_sizes_to_find(setting: Setting) -> Observation:
    micro, accumulation = 2, setting["accumulation"]
    sizes = {
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": accumulation,
        "train_batch_size": micro * accumulation * setting.world,
    }
    names = {
        "micro": "train_micro_batch_size_per_gpu",
        "accumulation": "gradient_accumulation_steps",
        "train": "train_batch_size",
    }
    given = {names[name]: sizes[names[name]] for name in str(setting["given"]).split("_and_")}
    config = {**tiny_config(train_micro_batch_size_per_gpu=None), **given}
    return prove(starter(setting)(model=tiny_model(), config=config)[0], setting)


@case("initialize/batch_sizes", leave_batch_sizes_to_find)
def check_batch_sizes(axes: Axes, observations: list[Observation]) -> None:
    assert_works(observations, micro_batch=2, accumulation=int(axes["accumulation"]))


def give_wrong_batch_sizes(setting: Setting) -> Observation:
    choices: dict[str, dict[str, Any]] = {
        "contradiction": {
            "train_batch_size": 7 * setting.world,
            "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": 1,
        },
        "indivisible": {"train_batch_size": 3},
        "smaller_than_world": {"train_batch_size": setting.world - 1},
        "nothing": {},
        "accumulation_only": {"gradient_accumulation_steps": 2},
        "zero": {"train_micro_batch_size_per_gpu": 0},
        "negative": {"train_micro_batch_size_per_gpu": -1},
        "auto": {"train_micro_batch_size_per_gpu": "auto"},
    }
    config = {**tiny_config(train_micro_batch_size_per_gpu=None), **choices[setting["wrong"]]}
    return {"attempt": attempt(lambda: starter(setting)(model=tiny_model(), config=config)[0])}


@case("initialize/batch_sizes_refused", give_wrong_batch_sizes)
def check_batch_sizes_refused(axes: Axes, observations: list[Observation]) -> None:
    world = axes["world"]
    if (axes["call"], axes["wrong"]) == ("reference", "auto"):
        says = 'config: found "auto" for train_micro_batch_size_per_gpu'
        assert_refused(observations, "attempt", f"{REFERENCE}.ConfigError", says)
        return
    error, says = {
        "contradiction": ("AssertionError", f"{BATCH_TRIPLE} {7 * int(world)} != 2 * 1 * {world}"),
        "indivisible": ("AssertionError", f"{BATCH_TRIPLE} 3 != 1 * 1 * 2"),
        "smaller_than_world": ("AssertionError", "Micro batch size per gpu: 0 has to be greater than 0"),
        "nothing": ("AssertionError", NO_BATCH),
        "accumulation_only": ("AssertionError", NO_BATCH),
        "zero": ("AssertionError", "Train batch size: 0 has to be greater than 0"),
        "negative": ("AssertionError", f"Train batch size: -{world} has to be greater than 0"),
        "auto": ("TypeError", "'>' not supported between instances of 'str' and 'int'"),
    }[str(axes["wrong"])]
    assert_refused(observations, "attempt", error, says)


# What it returns


def take_what_is_returned(setting: Setting) -> Observation:
    import torch

    config = tiny_config(zero_optimization={"stage": setting["stage"]})
    given: dict[str, Any] = {}
    if setting["given"] == "everything":
        given = {"lr_scheduler": halving, "training_data": torch.utils.data.TensorDataset(*samples(8))}
    returned = starter(setting)(model=tiny_model(), config=config, **given)
    engine, optimizer, loader, scheduler = returned
    return {
        "kind": class_of(returned),
        "engine": class_of(engine),
        "optimizer_is_the_engine's": optimizer is engine.optimizer,
        "loader_is_the_engine's": loader is engine.training_dataloader,
        "scheduler_is_the_engine's": scheduler is engine.lr_scheduler,
        "loader": None if loader is None else class_of(loader),
        "proof": prove(engine, setting),
    }


@case("initialize/returned", take_what_is_returned)
def check_returned(axes: Axes, observations: list[Observation]) -> None:
    everything = axes["given"] == "everything"
    for rank, seen in enumerate(observations):
        expected = {
            "kind": "builtins.tuple",
            "engine": "deepspeed.runtime.engine.DeepSpeedEngine",
            "optimizer_is_the_engine's": True,
            "loader_is_the_engine's": True,
            "scheduler_is_the_engine's": True,
            "loader": "deepspeed.runtime.dataloader.DeepSpeedDataLoader" if everything else None,
        }
        for key, value in expected.items():
            assert seen[key] == value, f"rank {rank}: {key} is {seen[key]!r}, expected {value!r}"
    scheduler = "torch.optim.lr_scheduler.StepLR" if everything else None
    assert_works(proofs_in(observations, "proof"), stage=int(axes["stage"]), scheduler=scheduler)


def collate_first_feature(items: list[Any]) -> Any:
    """A batch that only this function makes: 100 + the first feature of each sample."""
    import torch

    return torch.stack([100 + item[0][0] for item in items])


def read_training_data(setting: Setting) -> Observation:
    import torch

    count = 8
    inputs = torch.arange(float(count)).reshape(count, 1).repeat(1, 4)
    given: dict[str, Any] = (
        {} if setting["data"] == "absent" else {"training_data": torch.utils.data.TensorDataset(inputs)}
    )
    if setting["data"] == "collated":
        given["collate_fn"] = collate_first_feature
    engine, _, loader, _ = starter(setting)(model=tiny_model(), config=tiny_config(), **given)
    batches = None
    if loader is not None:
        first = [batch if setting["data"] == "collated" else batch[0][:, 0] for batch in loader]
        batches = [[float(value) for value in batch] for batch in first]
    return {"batches": batches, "proof": prove(engine, setting)}


@case("initialize/training_data", read_training_data)
def check_training_data(axes: Axes, observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "proof"))
    if axes["data"] == "absent":
        assert all(seen["batches"] is None for seen in observations), "a loader without training_data"
        return
    batches = [batch for seen in observations for batch in seen["batches"]]
    assert all(len(batch) == 2 for batch in batches), f"batches of another size than the micro batch, 2: {batches}"
    offset = 100 if axes["data"] == "collated" else 0
    found = sorted(value - offset for batch in batches for value in batch)
    assert found == list(range(8)), f"the ranks together read {found}, expected each of the 8 samples once"


# Who am I: local rank and device


def give_local_rank_in_args(setting: Setting) -> Observation:
    import deepspeed

    own = int(os.environ["LOCAL_RANK"])
    args = Namespace(
        local_rank={
            "none": None,
            "minus_one": -1,
            "equal": own,
            "different": own + 1,
            "text": str(own),
            "float": float(own),
        }[str(setting["value"])]
    )
    started = attempt(lambda: prove(deepspeed.initialize(args, tiny_model(), config=tiny_config())[0], setting))
    return {"started": started, "after": args.local_rank, "own": own}


@case("initialize/args_local_rank", give_local_rank_in_args)
def check_args_local_rank(axes: Axes, observations: list[Observation]) -> None:
    refusals = {"different": "Mismatch in local rank setting", "text": "is an unknown type <class 'str'>"}
    refusals["float"] = "is an unknown type <class 'float'>"
    if axes["value"] in refusals:
        assert_refused(observations, "started", "AssertionError", refusals[str(axes["value"])])
        return
    assert_works(proofs_in(observations, "started"))
    for rank, seen in enumerate(observations):
        assert seen["after"] == seen["own"], (
            f"rank {rank}: args.local_rank is {seen['after']!r} afterwards, LOCAL_RANK {seen['own']}"
        )


def start_torch(setting: Setting) -> None:
    """Start torch.distributed with the variables of the launcher, without DeepSpeed."""
    import torch

    torch.distributed.init_process_group(setting.transport)


def start_without_local_rank(setting: Setting) -> Observation:
    import deepspeed

    del os.environ["LOCAL_RANK"]
    if setting["up"] == "torch":
        start_torch(setting)
    else:
        deepspeed.init_distributed(dist_backend=setting.transport, auto_mpi_discovery=False)
    start = starter(setting)
    return {"started": attempt(lambda: prove(start(model=tiny_model(), config=tiny_config())[0], setting))}


@case("initialize/local_rank_unset", start_without_local_rank)
def check_local_rank_unset(axes: Axes, observations: list[Observation]) -> None:
    if axes["call"] == "deepspeed":
        assert_refused(
            observations, "started", "AssertionError", "DeepSpeed requires the LOCAL_RANK environment variable"
        )
    elif axes["world"] == 1:  # the only rank is also the only one on its host
        assert_works(proofs_in(observations, "started"))
    else:
        says = "LOCAL_RANK: found nothing, while torch.distributed is already up"
        assert_refused(observations, "started", f"{REFERENCE}.TopologyError", says)


def give_open_mpi_local_rank(setting: Setting) -> Observation:
    own, value, start = int(os.environ["LOCAL_RANK"]), str(setting["value"]), starter(setting)
    start_torch(setting)
    os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] = str(own + 5 if value == "different" else own)
    if value.startswith("alone"):
        del os.environ["LOCAL_RANK"]
    given = {"args": Namespace(local_rank=own)} if value.endswith("_with_args") else {}
    started = attempt(lambda: prove(start(model=tiny_model(), config=tiny_config(), **given)[0], setting))
    return {"started": started, "after": os.environ.get("LOCAL_RANK"), "own": str(own)}


@case("initialize/open_mpi_local_rank", give_open_mpi_local_rank)
def check_open_mpi_local_rank(axes: Axes, observations: list[Observation]) -> None:
    if axes["value"] == "different":
        error, says = "AssertionError", "conflicting local rank info"
        if axes["call"] == "reference":
            error, says = f"{REFERENCE}.TopologyError", "while OMPI_COMM_WORLD_LOCAL_RANK is"
        assert_refused(observations, "started", error, says)
        return
    assert_works(proofs_in(observations, "started"))
    for rank, seen in enumerate(observations):
        assert seen["after"] == seen["own"], (
            f"rank {rank}: LOCAL_RANK is {seen['after']!r} afterwards, expected {seen['own']!r}"
        )


def give_device_rank(setting: Setting) -> Observation:
    import deepspeed
    from deepspeed.accelerator import get_accelerator

    own = int(os.environ["LOCAL_RANK"])
    device_rank = {"own": own, "none": None}[str(setting["value"])]
    chosen: list[Any] = []
    accelerator = get_accelerator()
    set_device = accelerator.set_device

    def recording(index: Any) -> None:
        chosen.append(index)
        set_device(index)

    args = Namespace(device_rank=device_rank)
    accelerator.set_device = recording
    try:
        started = attempt(lambda: prove(deepspeed.initialize(args, tiny_model(), config=tiny_config())[0], setting))
    finally:
        accelerator.set_device = set_device
    return {"started": started, "chosen": chosen}


@case("initialize/device_rank", give_device_rank)
def check_device_rank(axes: Axes, observations: list[Observation]) -> None:
    if axes["value"] == "none":
        says = "'>=' not supported between instances of 'NoneType' and 'int'"
        assert_refused(observations, "started", "TypeError", says)
        return
    assert_works(proofs_in(observations, "started"))
    for rank, seen in enumerate(observations):
        assert seen["chosen"] == [rank], f"rank {rank}: set_device was called with {seen['chosen']}, expected [{rank}]"


# torch.distributed: who starts it, and how


def adopt_torch(setting: Setting) -> Observation:
    import torch

    start_torch(setting)
    group = torch.distributed.group.WORLD
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        del os.environ[name]
    with without_module("mpi4py"):  # so that asking MPI would show
        proof = prove(starter(setting)(model=tiny_model(), config=tiny_config())[0], setting)
    return {"proof": proof, "same_group": torch.distributed.group.WORLD is group}


@case("initialize/torch_first", adopt_torch)
def check_torch_first(observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "proof"))
    assert all(seen["same_group"] for seen in observations), "initialize replaced the default group"


def watch_for_compiling(setting: Setting) -> Observation:
    """Start where DeepSpeed believes that it can build its shared-memory op, and stop the build."""
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    from deepspeed.comm.torch import build_shm_op

    built: list[str] = []

    def stopped(builder: Any, *_: object, **__: object) -> None:
        built.append(builder.NAME)
        raise RuntimeError(f"{builder.NAME} would be compiled")

    builder = type(get_accelerator().create_op_builder("ShareMemCommBuilder"))
    builder.load = stopped
    deepspeed.ops.__compatible_ops__[builder.NAME] = True
    if setting["up"] == "torch":
        start_torch(setting)
    started = attempt(lambda: prove(starter(setting)(model=tiny_model(), config=tiny_config())[0], setting))
    told = {"started": started, "built": list(built), "compatible": deepspeed.ops.__compatible_ops__[builder.NAME]}
    watched = attempt(build_shm_op)
    return {**told, "watched": "would be compiled" in str(watched.get("raised"))}


@case("initialize/compiles_nothing", watch_for_compiling)
def check_compiles_nothing(observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "started"))
    for rank, seen in enumerate(observations):
        assert seen["watched"], f"rank {rank}: this DeepSpeed builds the op otherwise, and nothing was watched"
        assert seen["built"] == [], f"rank {rank}: {seen['built']} would have been compiled"
        assert seen["compatible"] is True, f"rank {rank}: the op was left switched off"


def leave_one_of_two_engines(setting: Setting) -> Observation:
    import torch

    from conformance.reference import initialize

    config = tiny_config(zero_optimization={"stage": setting["stage"]})
    both = [initialize(tiny_model(), config, transport=setting.transport) for _ in range(2)]
    first, last = both[setting["left_first"]], both[1 - setting["left_first"]]
    first.shutdown()
    proof = attempt(lambda: prove(last.engine, setting))
    first.shutdown()
    up = torch.distributed.is_initialized()
    last.shutdown()
    return {"proof": proof, "up": up, "up_in_the_end": torch.distributed.is_initialized()}


@case("initialize/two_engines", leave_one_of_two_engines)
def check_two_engines(axes: Axes, observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "proof"), stage=int(axes["stage"]))
    for rank, seen in enumerate(observations):
        assert seen["up"], f"rank {rank}: the first to be left, twice, ended the group of the other"
        assert not seen["up_in_the_end"], f"rank {rank}: the group is still up after the last was left"


def require_distributed(setting: Setting) -> Observation:
    import deepspeed

    if setting["up"] == "torch":
        start_torch(setting)
    elif setting["up"] == "deepspeed":
        deepspeed.init_distributed(dist_backend=setting.transport)
    required = {"none": None, "true": True, "false": False}[str(setting["required"])]
    return {
        "started": attempt(
            lambda: prove(
                deepspeed.initialize(model=tiny_model(), config=tiny_config(), dist_init_required=required)[0], setting
            )
        )
    }


@case("initialize/dist_init_required", require_distributed)
def check_dist_init_required(axes: Axes, observations: list[Observation]) -> None:
    if axes["required"] == "false" and axes["up"] == "nothing":
        assert_refused(observations, "started", "AssertionError", "Distributed backend is not initialized")
        return
    assert_works(proofs_in(observations, "started"))


def init_distributed_twice(setting: Setting) -> Observation:
    import deepspeed
    import torch

    deepspeed.init_distributed(dist_backend=setting.transport)
    group, backend = torch.distributed.group.WORLD, deepspeed.comm.comm.cdb
    deepspeed.init_distributed(dist_backend=setting.transport)
    kept = torch.distributed.group.WORLD is group and deepspeed.comm.comm.cdb is backend
    return {"kept": kept, "proof": prove(starter(setting)(model=tiny_model(), config=tiny_config())[0], setting)}


@case("initialize/init_distributed_twice", init_distributed_twice)
def check_init_distributed_twice(observations: list[Observation]) -> None:
    assert all(seen["kept"] for seen in observations), (
        "the second init_distributed replaced the default group or the backend"
    )
    assert_works(proofs_in(observations, "proof"))


def chosen_gloo(options: Any, *_rest: Any) -> Any:
    """A process group under a name of its own, to tell an explicit choice from the default."""
    import torch

    return torch.distributed.ProcessGroupGloo(options.store, options.group_rank, options.group_size, options.timeout)


def choose_backend(setting: Setting) -> Observation:
    import deepspeed
    import torch
    from deepspeed.accelerator import get_accelerator

    refused = attempt(lambda: deepspeed.initialize(model=tiny_model(), config=tiny_config(), dist_backend="gloo"))
    if setting["by"] == "init_distributed":
        if "chosen_gloo" not in torch.distributed.Backend.backend_list:
            torch.distributed.Backend.register_backend(
                "chosen_gloo", chosen_gloo, extended_api=True, devices=["cpu", "cuda"]
            )
        deepspeed.init_distributed(dist_backend="chosen_gloo")
    proof = prove(deepspeed.initialize(model=tiny_model(), config=tiny_config())[0], setting)
    return {"refused": refused, "proof": proof, "default": get_accelerator().communication_backend_name()}


@case("initialize/backend_choice", choose_backend)
def check_backend_choice(axes: Axes, observations: list[Observation]) -> None:
    assert_refused(observations, "refused", "TypeError", "unexpected keyword argument 'dist_backend'")
    proofs = proofs_in(observations, "proof")
    for seen, proof in zip(observations, proofs, strict=True):
        wanted = "chosen_gloo" if axes["by"] == "init_distributed" else seen["default"]
        assert proof["transport"] == wanted, f"the transport is {proof['transport']}, expected {wanted}"
    assert_works([{**proof, "transport": proof["asked"]["transport"]} for proof in proofs])


def ask_for_transport(setting: Setting) -> Observation:
    import torch

    from conformance.reference import initialize

    if setting["asked"] == "other_than_running":
        torch.distributed.init_process_group("gloo")
    transport = "mpi" if setting["asked"] == "other_than_running" else setting["asked"]
    return {"attempt": attempt(lambda: initialize(tiny_model(), tiny_config(), transport=transport))}


@case("initialize/transport_refused", ask_for_transport)
def check_transport_refused(axes: Axes, observations: list[Observation]) -> None:
    says = {
        "carrier_pigeon": "transport: found 'carrier_pigeon'; expected one of auto, gloo, nccl, mpi",
        "nccl": "transport: found 'nccl'",
        "other_than_running": "transport: found 'mpi', while torch.distributed is already up with gloo",
    }[str(axes["asked"])]
    assert_refused(observations, "attempt", f"{REFERENCE}.TransportError", says)


def read_group_timeout(setting: Setting) -> Observation:
    import deepspeed
    import torch

    given, seconds = {}, datetime.timedelta(seconds=77)
    if setting["given"] == "seconds" and setting["call"] == "reference":
        given["timeout"] = seconds
    elif setting["given"] == "seconds":
        deepspeed.init_distributed(dist_backend=setting.transport, timeout=seconds)
    proof = prove(starter(setting)(model=tiny_model(), config=tiny_config(), **given)[0], setting)
    group = torch.distributed.group.WORLD._get_backend(torch.device(setting.device))  # type: ignore[union-attr]
    return {"seconds": group.options._timeout.total_seconds(), "proof": proof}


@case("initialize/group_timeout", read_group_timeout)
def check_group_timeout(axes: Axes, observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "proof"))
    expected = 77 if axes["given"] == "seconds" else 600
    for rank, seen in enumerate(observations):
        assert seen["seconds"] == expected, f"rank {rank}: the group waits {seen['seconds']} s, expected {expected} s"


# Optimizers, schedulers and data types


def sgd(parameters: Any) -> Any:
    """Plain SGD: no optimizer that DeepSpeed calls tested with ZeRO."""
    import torch

    return torch.optim.SGD(parameters, lr=LEARNING_RATE)


def give_optimizer(setting: Setting) -> Observation:
    import torch

    config = tiny_config(zero_optimization={"stage": setting["stage"]})
    kind, model = str(setting["kind"]), tiny_model()
    if kind.endswith("_over_config"):
        config["optimizer"]["params"]["lr"] = 9.0
    elif kind != "config":
        del config["optimizer"]
    choices: dict[str, dict[str, Any]] = {
        "config": {},
        "object": {"optimizer": adamw(model.parameters())},
        "callable": {"optimizer": adamw},
        "class": {"optimizer": torch.optim.AdamW},
    }
    given = choices[kind.removesuffix("_over_config")]
    engine = starter(setting)(model=model, config=config, **given)[0]
    kept = kind.startswith("object") and engine.basic_optimizer is given["optimizer"]
    return {"kept": kept, "proof": prove(engine, setting, optimizer=torch.optim.AdamW if kind == "class" else adamw)}


@case("initialize/optimizer", give_optimizer)
def check_optimizer(axes: Axes, observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "proof"), stage=int(axes["stage"]), optimizer=TORCH_ADAMW)
    if str(axes["kind"]).startswith("object"):
        assert all(seen["kept"] for seen in observations), (
            "the engine's basic optimizer is not the object that was passed"
        )


def give_wrong_optimizer(setting: Setting) -> Observation:
    config, given = tiny_config(), {}
    wrong = str(setting["wrong"])
    if wrong == "unknown_name":
        config["optimizer"] = {"type": "NoSuchOptimizer", "params": {}}
    elif wrong == "clipping_in_parameters":
        config["optimizer"]["params"]["max_grad_norm"] = 1.0
    else:
        given["optimizer"] = {"number": 3, "text": "Adam", "empty_list": []}[wrong]
    return {"attempt": attempt(lambda: starter(setting)(model=tiny_model(), config=config, **given)[0])}


@case("initialize/optimizer_refused", give_wrong_optimizer)
def check_optimizer_refused(axes: Axes, observations: list[Observation]) -> None:
    error, says = {
        "number": ("AssertionError", "Client Optimizer is of unexpected type <class 'int'>"),
        "text": ("AssertionError", "Client Optimizer is of unexpected type <class 'str'>"),
        "empty_list": ("AssertionError", "Client Optimizer is of unexpected type <class 'list'>"),
        "unknown_name": ("AssertionError", "NoSuchOptimizer is not a supported DeepSpeed Optimizer"),
        "clipping_in_parameters": ("ValueError", "'max_grad_norm' is not supported as an optimizer parameter"),
    }[str(axes["wrong"])]
    assert_refused(observations, "attempt", error, says)


def leave_optimizer_out(setting: Setting) -> Observation:
    import torch

    config = tiny_config(optimizer=None, zero_optimization={"stage": setting["stage"]})

    def forward() -> Observation:
        engine, optimizer, _, _ = starter(setting)(model=tiny_model(), config=config)
        inputs, _ = samples(4)
        with torch.no_grad():
            outputs = engine(inputs.to(engine.device)).cpu()
            expected = tiny_model()(inputs)
        same = bool(torch.allclose(outputs, expected, atol=1e-6))
        return {"optimizer": None if optimizer is None else class_of(optimizer), "same_outputs": same}

    return {"started": attempt(forward)}


@case("initialize/optimizer_absent", leave_optimizer_out)
def check_optimizer_absent(axes: Axes, observations: list[Observation]) -> None:
    stage = int(axes["stage"])
    if stage in (1, 2):
        assert_refused(observations, "started", "AssertionError", f"zero stage {stage} requires an optimizer")
        return
    expected = None if stage == 0 else "deepspeed.runtime.zero.parameter_offload.DeepSpeedZeRoOffload"
    for rank, started in enumerate(proofs_in(observations, "started")):
        assert started["optimizer"] == expected, (
            f"rank {rank}: the optimizer is {started['optimizer']}, expected {expected}"
        )
        assert started["same_outputs"], f"rank {rank}: the engine's outputs are not the model's"


def halving(optimizer: Any) -> Any:
    """A scheduler that halves the rate after every step."""
    import torch

    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)


def give_scheduler(setting: Setting) -> Observation:
    config = tiny_config(zero_optimization={"stage": setting["stage"]})
    kind, model = str(setting["kind"]), tiny_model()
    by_config = {"type": "StepLR", "params": {"step_size": 1, "gamma": 0.5}}
    given: dict[str, Any] = {}
    if kind == "torch_by_config":
        config["scheduler"] = by_config
    elif kind == "deepspeed_by_config":
        warmup = {"warmup_min_lr": 0.0, "warmup_max_lr": LEARNING_RATE, "warmup_num_steps": 4, "warmup_type": "linear"}
        config["scheduler"] = {"type": "WarmupLR", "params": warmup}
    elif kind.startswith("object"):
        given["optimizer"] = adamw(model.parameters())
        given["lr_scheduler"] = halving(given["optimizer"])
    else:
        given["lr_scheduler"] = halving
    if kind.endswith("_over_config"):
        config["scheduler"] = {"type": "StepLR", "params": {"step_size": 1, "gamma": 0.01}}
    engine = starter(setting)(model=model, config=config, **given)[0]
    return prove(engine, setting, steps=3, scheduler=halving)


@case("initialize/scheduler", give_scheduler)
def check_scheduler(axes: Axes, observations: list[Observation]) -> None:
    if axes["kind"] == "deepspeed_by_config":
        scheduler, rates = "deepspeed.runtime.lr_schedules.WarmupLR", [0.0, 0.0, 0.0025, 0.005]
    else:
        scheduler, rates = "torch.optim.lr_scheduler.StepLR", [0.01, 0.005, 0.0025, 0.00125]
    like_plain = axes["kind"] != "deepspeed_by_config"
    assert_works(observations, steps=3, stage=int(axes["stage"]), scheduler=scheduler, like_plain=like_plain)
    for rank, seen in enumerate(observations):
        found = [round(rate[0], 9) for rate in seen["rates"]]
        assert found == rates, f"rank {rank}: the rates were {found}, expected {rates}"


def give_scheduler_of_another_optimizer(setting: Setting) -> Observation:
    model = tiny_model()
    given: dict[str, Any] = {"lr_scheduler": halving(sgd(model.parameters()))}
    if setting["optimizer"] == "callable":
        given["optimizer"] = adamw
    config = tiny_config(optimizer=None if setting["optimizer"] == "callable" else tiny_config()["optimizer"])
    start = starter(setting)

    def rates() -> str:
        engine = start(model=model, config=config, **given)[0]
        return f"an engine whose rates were {prove(engine, setting, steps=3)['rates']}"

    return {"started": attempt(rates)}


@case("initialize/scheduler_of_another_optimizer", give_scheduler_of_another_optimizer)
def check_scheduler_of_another_optimizer(observations: list[Observation]) -> None:
    says = "is not instantiated but Client LR Scheduler is instantiated"
    assert_refused(observations, "started", "AssertionError", says)


def give_unknown_scheduler(setting: Setting) -> Observation:
    config = tiny_config(scheduler={"type": "NoSuchScheduler", "params": {}})
    return {"attempt": attempt(lambda: starter(setting)(model=tiny_model(), config=config)[0])}


@case("initialize/scheduler_refused", give_unknown_scheduler)
def check_scheduler_refused(observations: list[Observation]) -> None:
    says = "DeepSpeed does not recognize LR scheduler NoSuchScheduler"
    assert_refused(observations, "attempt", "AssertionError", says)


def give_untested_optimizer(setting: Setting) -> Observation:
    config = tiny_config(optimizer=None, zero_optimization={"stage": setting["stage"]})
    if setting["allowed"]:
        config["zero_allow_untested_optimizer"] = True
    model = tiny_model()
    optimizer = sgd(model.parameters())
    start = starter(setting)
    return {
        "started": attempt(
            lambda: prove(start(model=model, config=config, optimizer=optimizer)[0], setting, optimizer=sgd)
        )
    }


@case("initialize/untested_optimizer", give_untested_optimizer)
def check_untested_optimizer(axes: Axes, observations: list[Observation]) -> None:
    if axes["stage"] and not axes["allowed"]:
        assert_refused(observations, "started", "AssertionError", "You are using an untested ZeRO Optimizer")
        return
    assert_works(proofs_in(observations, "started"), stage=int(axes["stage"]), optimizer="torch.optim.sgd.SGD")


def offload_client_optimizer(setting: Setting) -> Observation:
    config = tiny_config(
        optimizer=None, zero_optimization={"stage": setting["stage"], "offload_optimizer": {"device": "cpu"}}
    )
    if not setting["forced"]:
        config["zero_force_ds_cpu_optimizer"] = False
    model = tiny_model()
    optimizer = adamw(model.parameters())

    def run() -> Observation:
        engine = starter(setting)(model=model, config=config, optimizer=optimizer)[0]
        return {**prove(engine, setting), "offloaded_to": str(engine.zero_offload_optimizer().device)}

    return {"started": attempt(run)}


@case("initialize/offload_client_optimizer", offload_client_optimizer)
def check_offload_client_optimizer(axes: Axes, observations: list[Observation]) -> None:
    if axes["forced"]:
        error = "deepspeed.runtime.zero.utils.ZeRORuntimeException"
        says = "You are using ZeRO-Offload with a client provided optimizer"
        assert_refused(observations, "started", error, says)
        return
    proofs = proofs_in(observations, "started")
    assert_works(proofs, stage=int(axes["stage"]))
    assert all(proof["offloaded_to"] == "cpu" for proof in proofs), "the optimizer was not offloaded"


def choose_dtype(setting: Setting) -> Observation:
    from deepspeed.accelerator import get_accelerator

    dtypes = ("fp16", "bf16") if setting["dtype"] == "both" else (str(setting["dtype"]),)
    config = tiny_config(**{dtype: {"enabled": True} for dtype in dtypes})
    if setting["dtype"] == "fp16":
        config["fp16"]["initial_scale_power"] = 8
    accelerator = get_accelerator()
    supported = {"fp16": accelerator.is_fp16_supported(), "bf16": accelerator.is_bf16_supported()}
    started = attempt(lambda: prove(starter(setting)(model=tiny_model(), config=config)[0], setting))
    return {"started": started, "supported": supported}


@case("initialize/dtype", choose_dtype)
def check_dtype(axes: Axes, observations: list[Observation]) -> None:
    dtype = str(axes["dtype"])
    if dtype == "both":
        assert_refused(
            observations, "started", "AssertionError", "bfloat16 and fp16 modes cannot be simultaneously enabled"
        )
        return
    assert_same_everywhere(observations, "supported")
    if not observations[0]["supported"][dtype]:
        says = f"Type {dtype} is not supported on your device."
        assert_refused(observations, "started", "ValueError", says)
        raise Unsupported(f"this device has no {dtype}: ValueError: {says}")
    name = {"fp16": "float16", "bf16": "bfloat16"}[dtype]
    assert_works(proofs_in(observations, "started"), dtype=name, like_plain=False)


def start_in_a_locale(setting: Setting) -> Observation:
    encoding = codecs.lookup(locale.getpreferredencoding(False)).name
    started = starter(setting)(model=tiny_model(), config=tiny_config(zero_optimization={"stage": 2}))
    return {"encoding": encoding, "started": prove(started[0], setting)}


def in_a_locale(axes: Axes) -> list[Step]:
    told = locales.variables(str(axes["locale"]), utf8_mode=bool(axes["utf8_mode"]))
    return [Step(start_in_a_locale, environment=told, cold=True)]


@case("initialize/locale", plan=in_a_locale)
def check_locale(axes: Axes, observations: list[Observation]) -> None:
    expected = "utf-8" if axes["utf8_mode"] else locales.encoding(str(axes["locale"]))
    for rank, each in enumerate(observations):
        assert each["encoding"] == expected, f"rank {rank}: files are read as {each['encoding']}, expected {expected}"
    assert_works(proofs_in(observations, "started"), stage=2)


class ModelParallelUnit:
    """The least that `mpu` may be: one model-parallel rank."""

    def get_model_parallel_rank(self) -> int:
        return 0

    def get_model_parallel_world_size(self) -> int:
        return 1


def give_pipeline(setting: Setting) -> Observation:
    import deepspeed
    import torch
    from deepspeed.pipe import PipelineModule

    deepspeed.init_distributed(dist_backend=setting.transport, **for_launcher(setting))

    def pipeline() -> Any:
        layers = list(tiny_model().children())
        return PipelineModule(layers=layers, num_stages=1, loss_fn=torch.nn.MSELoss())

    refused = attempt(lambda: deepspeed.initialize(model=pipeline(), config=tiny_config(), mpu=ModelParallelUnit())[0])
    engine = deepspeed.initialize(model=pipeline(), config=tiny_config())[0]
    rank = torch.distributed.get_rank()
    batch = [value[2 * rank : 2 * rank + 2] for value in samples(2 * setting.world)]
    losses = [float(engine.train_batch(iter([batch]))) for _ in range(2)]
    return {"refused": refused, "engine": class_of(engine), "losses": losses, "steps": engine.global_steps}


@case("initialize/pipeline_mpu", give_pipeline)
def check_pipeline_mpu(observations: list[Observation]) -> None:
    assert_refused(observations, "refused", "AssertionError", "mpu must be None with pipeline parallelism")
    for rank, seen in enumerate(observations):
        expected = {"engine": "deepspeed.runtime.pipe.engine.PipelineEngine", "steps": 2}
        for key, value in expected.items():
            assert seen[key] == value, f"rank {rank}: {key} is {seen[key]!r}, expected {value!r}"
        assert seen["losses"][1] < seen["losses"][0], f"rank {rank}: the loss did not fall: {seen['losses']}"
    assert_same_everywhere(observations, "losses")
