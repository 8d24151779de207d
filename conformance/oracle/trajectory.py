"""The oracle's answer: losses, gradient norms and weights of a run in plain PyTorch.

The arithmetic, stated once more and independently of DeepSpeed:

- a float32 master copy of the weights is what the optimizer updates; in bf16 and fp16 it starts from the rounded
  weights, and after each step the weights that compute are the master copy rounded to that dtype;
- each micro-batch's gradient is computed in the computing dtype; in fp16 from the loss times the loss scale;
- the step's gradient is the mean over all micro-batches of all ranks (summed here in float64, and unscaled);
- its norm over all weights is clipped to `clipping` as torch.nn.utils.clip_grad_norm_ does;
- torch.optim updates the master copy; a parameter that no loss depends on has the gradient zero.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conformance import models
from conformance.oracle.lion import Lion
from conformance.oracle.question import Question

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

Weights = dict[str, NDArray[np.float32]]

Disturb = Callable[[str, Tensor, Tensor], Tensor]
"""(name, mean gradient, mean absolute gradient) to the gradient to use instead; all float64."""


@dataclasses.dataclass(frozen=True)
class Trajectory:
    """A run.

    Attributes:
        losses: the mean loss over the global batch before each step.
        gradient_norms: before clipping, of each step.
        start: the master weights before the first step, by parameter name; frozen ones as the model computes with them.
        weights: the same after the last step.
    """

    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    start: Weights
    weights: Weights


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in the order that a rank with one thread takes them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _numpy(tensors: dict[str, Tensor]) -> Weights:
    return {name: tensor.detach().float().numpy().copy() for name, tensor in tensors.items()}


def run(question: Question, disturb: Disturb | None = None) -> Trajectory:
    """Train as `question` says; `disturb` may change each step's gradient before it is clipped."""
    dtype = DTYPES[question.dtype]
    loss_of = models.task(question.task).loss
    scale = question.loss_scale if question.dtype == "fp16" else 1.0
    with _one_thread():
        model = models.build(question.task, question.seed)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(dtype)
        parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        masters = {name: parameter.detach().clone().float().requires_grad_() for name, parameter in parameters.items()}
        optimizer = _optimizer(question, masters)
        frozen = {name: each for name, each in model.named_parameters() if not each.requires_grad}
        start = _numpy({**masters, **frozen})
        losses: list[float] = []
        norms: list[float] = []
        for step in range(question.steps):
            total = {name: torch.zeros_like(master, dtype=torch.float64) for name, master in masters.items()}
            magnitude = {name: torch.zeros_like(master, dtype=torch.float64) for name, master in masters.items()}
            loss_sum = 0.0
            for micro in range(question.accumulation):
                for rank in range(question.world):
                    inputs, targets = models.micro_batch(
                        question.task,
                        step,
                        micro=micro,
                        accumulation=question.accumulation,
                        rank=rank,
                        world=question.world,
                    )
                    loss = loss_of(model(inputs), targets)
                    loss_sum += loss.item()
                    gradients = torch.autograd.grad(loss * scale, list(parameters.values()), allow_unused=True)
                    for name, gradient in zip(parameters, gradients, strict=True):
                        if gradient is not None:
                            total[name] += gradient.double()
                            magnitude[name] += gradient.double().abs()
            losses.append(loss_sum / question.terms)
            share = 1.0 / (scale * question.terms)
            for name, master in masters.items():
                mean = total[name] * share
                if disturb is not None:
                    mean = disturb(name, mean, magnitude[name] * share)
                master.grad = mean.float()
            norm = math.sqrt(
                sum(
                    float(master.grad.double().square().sum()) for master in masters.values() if master.grad is not None
                )
            )
            if question.halving and not math.isfinite(norm):
                scale /= 2
                norms.append(math.inf)
                continue
            norms.append(norm)
            if question.clipping:
                torch.nn.utils.clip_grad_norm_(masters.values(), question.clipping)
            if question.rates:
                for group in optimizer.param_groups:
                    group["lr"] = question.rates[step]
            optimizer.step()
            with torch.no_grad():
                for name, parameter in parameters.items():
                    parameter.copy_(masters[name])
        return Trajectory(tuple(losses), tuple(norms), start, _numpy({**masters, **frozen}))


def _optimizer(question: Question, masters: dict[str, Tensor]) -> torch.optim.Optimizer:
    options: dict[str, Any] = dict(question.optimizer.options)
    kind: Any = Lion if question.optimizer.name == "Lion" else getattr(torch.optim, question.optimizer.name)
    made: torch.optim.Optimizer = kind(groups(masters, options) if question.grouped else masters.values(), **options)
    return made


def groups(parameters: dict[str, Any], options: dict[str, Any]) -> list[dict[str, Any]]:
    """The two parameter groups of a question that is `grouped`."""
    biases = [each for name, each in parameters.items() if name.endswith("bias")]
    others = [each for name, each in parameters.items() if not name.endswith("bias")]
    return [{"params": others}, {"params": biases, "lr": options["lr"] / 2, "weight_decay": 0.0}]


@functools.lru_cache(maxsize=512)
def trajectory(question: Question) -> Trajectory:
    """The answer to `question`, computed once a process."""
    return run(question)
