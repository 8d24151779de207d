"""The oracle: right runs are well within its tolerances, and planted errors are far outside."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from conformance import models
from conformance.oracle.deviation import Deviation, deviation
from conformance.oracle.question import Optimizer, Question
from conformance.oracle.tolerance import Tolerance, noise, tolerance
from conformance.oracle.trajectory import DTYPES, Trajectory, run, trajectory

FULL = {"world": 2, "accumulation": 2, "clipping": 0.2}
QUESTIONS = [Question(dtype=dtype, **FULL) for dtype in ("fp32", "bf16", "fp16")]


def excess(found: Deviation, allowed: Tolerance) -> float:
    """The largest part of its tolerance that any measure takes; above 1 the run is refused."""
    parts = [found.stride / allowed.stride]
    parts += [error / limit for error, limit in zip(found.losses, allowed.losses, strict=True)]
    parts += [found.weights[name] / allowed.weights[name] for name in found.weights]
    return max(parts)


def compare(question: Question, other: Trajectory) -> float:
    return excess(deviation(trajectory(question), other.losses, other.weights), tolerance(question))


def train_low(question: Question) -> Trajectory:
    """A second statement of the same training that rounds where DeepSpeed rounds.

    Gradients are accumulated in the computing dtype in each rank, and added over ranks in it, the last rank first.
    """
    dtype = DTYPES[question.dtype]
    scale = question.loss_scale if question.dtype == "fp16" else 1.0
    model = models.build(question.task, question.seed).to(dtype)
    masters = [parameter.detach().clone().float() for parameter in model.parameters()]
    optimizer = torch.optim.AdamW(masters, **dict(question.optimizer.options))
    losses = []
    for step in range(question.steps):
        total: list[Tensor] | None = None
        loss_sum = 0.0
        for rank in reversed(range(question.world)):
            model.zero_grad()
            for micro in range(question.accumulation):
                inputs, targets = models.micro_batch(
                    question.task,
                    step,
                    micro=micro,
                    accumulation=question.accumulation,
                    rank=rank,
                    world=question.world,
                )
                loss = models.task(question.task).loss(model(inputs), targets)
                (loss / question.accumulation * scale).backward()
                loss_sum += loss.item()
            own = [parameter.grad.clone() / question.world for parameter in model.parameters()]
            total = own if total is None else [one + other for one, other in zip(total, own, strict=True)]
        losses.append(loss_sum / question.terms)
        for master, gradient in zip(masters, total, strict=True):
            master.grad = gradient.float() / scale
        if question.clipping:
            torch.nn.utils.clip_grad_norm_(masters, question.clipping)
        optimizer.step()
        with torch.no_grad():
            for parameter, master in zip(model.parameters(), masters, strict=True):
                parameter.copy_(master)
    names = [name for name, _ in model.named_parameters()]
    weights = {name: master.numpy() for name, master in zip(names, masters, strict=True)}
    return Trajectory(tuple(losses), (), trajectory(question).start, weights)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.dtype)
def test_a_right_run_is_well_within(question: Question) -> None:
    assert compare(question, train_low(question)) < 0.5


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.dtype)
@pytest.mark.parametrize("world,accumulation", [(1, 1), (1, 4), (4, 1), (4, 2)])
def test_the_split_does_not_matter(question: Question, world: int, accumulation: int) -> None:
    """The same global batches, split another way, are the same training."""
    other = dataclasses.replace(question, world=world, accumulation=accumulation)
    allowed = dataclasses.replace(question, world=4, accumulation=2)  # the most roundings of all these
    found = deviation(trajectory(question), trajectory(other).losses, trajectory(other).weights)
    assert excess(found, tolerance(allowed, same_kernels=False)) < 1


def dropped_batch(question: Question) -> Trajectory:
    """One micro-batch of sixteen never reaches its gradient: the first step's third."""
    seen = 0

    def disturb(name: str, mean: Tensor, _magnitude: Tensor) -> Tensor:
        nonlocal seen
        if name == "first.weight":
            seen += 1
        if seen != 1:
            return mean
        return mean - share(question, micro=1, rank=0)[name] / question.terms

    return run(question, disturb)


def share(question: Question, *, micro: int, rank: int, step: int = 0) -> dict[str, Tensor]:
    """The gradient of one micro-batch at the initial weights, float64."""
    model = models.build(question.task, question.seed).to(DTYPES[question.dtype])
    inputs, targets = models.micro_batch(
        question.task, step, micro=micro, accumulation=question.accumulation, rank=rank, world=question.world
    )
    loss = models.task(question.task).loss(model(inputs), targets)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return {name: grad.double() for (name, _), grad in zip(model.named_parameters(), gradients, strict=True)}


def lost_rank(question: Question) -> Trajectory:
    """Rank 1's gradients never arrive, and the sum is still divided by two: rank 0 alone with half the gradient."""

    def half(_name: str, mean: Tensor, _magnitude: Tensor) -> Tensor:
        return mean / 2

    original = models.micro_batch
    alone = dataclasses.replace(question, world=1)

    def of_rank_0(task: str, step: int, *, micro: int, accumulation: int, rank: int, world: int):
        return original(task, step, micro=micro, accumulation=accumulation, rank=0, world=2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "micro_batch", of_rank_0)
        return run(alone, half)


def rate_off_by_one_percent(question: Question) -> Trajectory:
    return run(dataclasses.replace(question, optimizer=question.optimizer.with_options(lr=1.01e-2)))


def clipping_ignored(question: Question) -> Trajectory:
    return run(dataclasses.replace(question, clipping=0.0))


def accumulation_off_by_one(question: Question) -> Trajectory:
    """Each step's last micro-batch is counted for nothing: its gradient is left out, its share of the mean is not."""
    step = -1

    def disturb(name: str, mean: Tensor, _magnitude: Tensor) -> Tensor:
        nonlocal step
        step += name == "first.weight"
        if step:
            return mean
        left_out = share(question, micro=question.accumulation - 1, rank=0)[name]
        left_out = left_out + share(question, micro=question.accumulation - 1, rank=1)[name]
        return mean - left_out / question.terms

    return run(question, disturb)


def accumulated_without_mean(question: Question) -> Trajectory:
    """Micro-batches are added up and not averaged, which clipping hides but for the optimizer's eps."""
    return run(question, lambda _name, mean, _magnitude: mean * question.accumulation)


def optimizer_steps_at_start(question: Question) -> Trajectory:
    """A step with zero gradients before the first real one."""

    class Early(torch.optim.AdamW):
        begun = False

        def step(self, closure=None):  # type: ignore[no-untyped-def]
            if not self.begun:
                self.begun = True
                kept = [parameter.grad for parameter in self.param_groups[0]["params"]]
                for parameter in self.param_groups[0]["params"]:
                    parameter.grad = torch.zeros_like(parameter)
                super().step()
                for parameter, gradient in zip(self.param_groups[0]["params"], kept, strict=True):
                    parameter.grad = gradient
            return super().step(closure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim, "Early", Early, raising=False)
        return run(dataclasses.replace(question, optimizer=Optimizer("Early", question.optimizer.options)))


PLANTED = [
    dropped_batch,
    lost_rank,
    rate_off_by_one_percent,
    clipping_ignored,
    accumulation_off_by_one,
    optimizer_steps_at_start,
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.dtype)
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.__name__)
def test_a_planted_error_is_far_outside(planted, question: Question) -> None:
    assert compare(question, planted(question)) > 4


def test_a_sum_in_place_of_a_mean_is_far_outside() -> None:
    question = Question(world=2, accumulation=2)
    assert compare(question, accumulated_without_mean(question)) > 100


def test_fp32_tolerance_would_not_let_bf16_pass() -> None:
    question = Question(**FULL)
    low = run(dataclasses.replace(question, dtype="bf16"))
    assert compare(question, low) > 10


def test_weights_kept_in_bf16_are_far_outside() -> None:
    """An optimizer that updates bf16 weights in place, without a float32 copy."""
    question = Question(dtype="bf16")
    model = models.build(question.task, question.seed).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), **dict(question.optimizer.options))
    losses = []
    for step in range(question.steps):
        inputs, targets = models.global_batch(question.task, step)
        loss = models.task(question.task).loss(model(inputs), targets)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = {name: parameter.detach().float().numpy() for name, parameter in model.named_parameters()}
    assert compare(question, Trajectory(tuple(losses), (), trajectory(question).start, weights)) > 4


def test_clipping_bites_in_every_step_of_the_default_question() -> None:
    assert min(trajectory(Question(**FULL)).gradient_norms) > 2 * FULL["clipping"]


def test_noise_follows_the_arithmetic() -> None:
    single, split = Question(dtype="bf16"), Question(dtype="bf16", world=2, accumulation=2)
    assert noise(single).sums == 0
    assert noise(split).sums == pytest.approx(3**0.5 * 2**-8)
    assert noise(Question()).products < noise(single).products < noise(single, same_kernels=False).products


def test_answers_do_not_depend_on_torchs_random_state() -> None:
    torch.manual_seed(1)
    first = run(Question())
    torch.manual_seed(2)
    state = torch.random.get_rng_state()
    second = run(Question())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first.losses == second.losses
    assert all(np.array_equal(first.weights[name], second.weights[name]) for name in first.weights)


def test_a_model_is_that_of_torchs_seed_and_leaves_it_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    built = models.build("mlp", 7).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(7)
    plain = models.task("mlp").model().state_dict()
    assert all(torch.equal(built[name], plain[name]) for name in plain)


def test_deviation_says_what_is_wrong_with_a_run() -> None:
    oracle = trajectory(Question())
    with pytest.raises(AssertionError, match="3 losses were reported, 4 steps"):
        deviation(oracle, oracle.losses[:3], oracle.weights)
    with pytest.raises(AssertionError, match="losses are not finite"):
        deviation(oracle, [*oracle.losses[:3], float("nan")], oracle.weights)
    with pytest.raises(AssertionError, match=r"the weights are \['first.bias'\]"):
        deviation(oracle, oracle.losses, {"first.bias": oracle.weights["first.bias"]})
    with pytest.raises(AssertionError, match="has the shape"):
        deviation(oracle, oracle.losses, {**oracle.weights, "first.bias": oracle.weights["first.bias"][:3]})
    broken = {**oracle.weights, "first.bias": np.full_like(oracle.weights["first.bias"], np.nan)}
    with pytest.raises(AssertionError, match="not finite"):
        deviation(oracle, oracle.losses, broken)


def test_micro_batches_cover_the_global_batch_once() -> None:
    for world, accumulation in ((1, 1), (2, 2), (4, 2)):
        parts = [
            models.micro_batch("mlp", 3, micro=micro, accumulation=accumulation, rank=rank, world=world)[0]
            for micro in range(accumulation)
            for rank in range(world)
        ]
        assert torch.equal(torch.cat(parts), models.global_batch("mlp", 3)[0])
    with pytest.raises(ValueError, match="16 rows does not split into 3 x 1"):
        models.micro_batch("mlp", 0, micro=0, accumulation=3, rank=0, world=1)
