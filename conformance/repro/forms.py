"""A cell in short: the values from which a template makes a script of at most 80 lines.

A suite says for each of its cases how a cell looks in short: a function from axes to a `Repro`, or None for axes that
have no short form. Where a field holds code, it is that of the script: lines, without an indent of their own.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from conformance.model.setting import Axes
from conformance.repro.tasks import MLP, Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class Repro:
    """What every script has.

    Attributes:
        config: DeepSpeed's config; None where the script's code has its own, or none.
        expected: what should come, a sentence; the cell's first rule by default.
        brief: the same in one line, where a script has no room for the rule.
    """

    template: ClassVar[str]
    starts: ClassVar[int] = 1
    brief: ClassVar[str] = ""

    config: Mapping[str, Any] | None = None
    expected: str = ""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str):
                object.__setattr__(self, field.name, textwrap.dedent(value).strip())

    @property
    def dtype(self) -> str:
        """torch's name of what the model computes in."""
        named = {"bf16": "bfloat16", "fp16": "float16"}
        return next((name for section, name in named.items() if section in (self.config or {})), "float32")


Short = Callable[[Axes], Repro | None]
"""How a case's cells look in short."""


def stage_of(config: Mapping[str, Any] | None) -> int:
    """The ZeRO stage that a config asks for."""
    return int((config or {}).get("zero_optimization", {}).get("stage", 0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(Repro):
    """Some steps of training, whose weights must be those that plain PyTorch comes to.

    Attributes:
        task: model, batches and loss.
        options: of the plain optimizer.
        functions: code of functions that the rest needs.
        plain_parameters: code of what the plain optimizer is given.
        begin: code that makes `engine`.
        loop: code that trains one step; has `engine`, `rank` and `step`.
        tolerance: the largest distance from the plain weights, relative to the way that these went.
        check: code that judges in place of plain PyTorch; has `engine` and `rank`.
        uses_folder: whether it runs in a folder of its own.
    """

    template = "training.py.jinja"
    function: ClassVar[str] = "train"
    brief = "The weights that plain PyTorch comes to."

    task: Task = MLP
    ranks: int = 2
    steps: int = 4
    accumulation: int = 1
    clipping: float = 0.0
    optimizer: str = "AdamW"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    functions: str = ""
    plain_parameters: str = "plain.parameters()"
    begin: str = "engine, *_ = deepspeed.initialize(model=Model(), config=CONFIG)"
    loop: str = """
        for batch in batches(step)[rank::RANKS]:
            engine.backward(loss_of(engine, *batch))
            engine.step()
    """
    tolerance: float = 1e-3
    check: str | None = None
    uses_folder: bool = False

    @property
    def stage(self) -> int:
        return stage_of(self.config)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resume(Repro):
    """Three steps, a save, and a resume by other processes from other weights.

    Attributes:
        layers: code of the model's layers, from 17 features.
        saved: the number of ranks that save. resumed: that of those that resume.
        load_config: code of the config of the resume, where it is another.
        begin: code that makes `engine` from `model` and `config`.
        save: code after the first three steps; has `engine` and `rank`.
        between: code that one process runs between the two; empty for none. between_name: of that function.
        load: code of the resume and its judgement; has `engine` and `rank`; empty for none.
        other_stage: of the resume, where it is another.
    """

    template = "resume.py.jinja"
    starts = 2
    brief = "The resumed run is the one that was not interrupted."
    uses_folder: ClassVar[bool] = True

    layers: str = "torch.nn.Linear(17, 63), torch.nn.Tanh(), torch.nn.Linear(63, 5)"
    saved: int = 2
    resumed: int = 2
    load_config: str = ""
    begin: str = "engine, *_ = deepspeed.initialize(model=model, config=config)"
    save: str = ""
    between: str = ""
    between_name: str = "convert"
    load: str = ""
    other_stage: int | None = None

    @property
    def stages(self) -> tuple[int, ...]:
        """Of the save and, where it is another, of the resume."""
        own = stage_of(self.config)
        return (own,) if self.other_stage is None else (own, self.other_stage)

    @property
    def jobs(self) -> str:
        """Code: which function is run in how many ranks, one after another."""
        jobs = [("save", self.saved), (self.between_name, 1), ("resume", self.resumed)]
        there = (True, bool(self.between), bool(self.load))
        named = [f"({name}, {ranks})" for (name, ranks), runs in zip(jobs, there, strict=True) if runs]
        return f"({', '.join(named)}{',' if len(named) == 1 else ''})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call(Repro):
    """Calls that must work, or be refused.

    Attributes:
        body: what each rank does.
        functions: code of functions that the body needs.
        uses_folder: whether it runs in a folder of its own.
    """

    template = "call.py.jinja"
    function: ClassVar[str] = "run"

    body: str
    ranks: int = 2
    functions: str = ""
    uses_folder: bool = False
