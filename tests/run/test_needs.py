"""What a cell needs of a host follows from all that its steps start."""

from __future__ import annotations

import collections
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance import integrations
from conformance.hosts import probes
from conformance.hosts.provenance import collect
from conformance.matrix import load_matrix
from conformance.model.case import Case, Step
from conformance.model.cell import Cell
from conformance.model.record import GpuInfo
from conformance.model.setting import Axes
from conformance.ranks import Job, Outcome
from conformance.run.cases import cases_of_suite
from conformance.run.context import RunContext
from conformance.run.planning import plan_cell
from conformance.run.run_cell import run_cell

MATRIX = load_matrix()
PLANTED_FILES = Path(__file__).with_name("planted") / "matrices"
EXCLUSION = """
[[case.exclude]]
where = {}
capabilities = { ipv6 = false }
reason = "nothing listens"
"""
PLANTED = Cell(suite="zero", case="train", axes={"world": 2}, title="t", rules=(), deadline=1.0)


class NothingStarted:
    """A pool that notes what it is asked for and starts nothing."""

    def __init__(self) -> None:
        self.worlds: list[int] = []

    def run(self, job: Job, *, fresh: bool = False) -> Outcome:
        self.worlds.append(job.setting.world)
        return Outcome((), 0.0, "forked", harness_error="nothing was started")

    def expect(self, worlds: Sequence[int]) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


def cases() -> dict[tuple[str, str], Case]:
    return {(suite, name): case for suite in MATRIX.suites for name, case in cases_of_suite(suite).items()}


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> RunContext:
    """A host that has whatever a probe asks for, and one GPU."""
    others = {name: lambda *_: None for name in probes.PROBES if name != "gpus"}
    monkeypatch.setattr(probes, "PROBES", {**probes.PROBES, **others})
    monkeypatch.setattr(probes, "gpus", lambda *_: (GpuInfo(name="A GPU", memory_bytes=1 << 34),))
    monkeypatch.setattr(integrations, "missing", lambda _: None)
    return RunContext(
        matrix=MATRIX,
        lane=MATRIX.lanes["linux_nccl"],
        transport="nccl",
        device="cuda",
        stack="pinned",
        provenance=collect([], host_class="test"),
    )


def test_with_one_gpu_every_cell_either_says_how_many_it_needs_or_starts_one_rank(one_gpu: RunContext) -> None:
    known, needing, started = cases(), collections.Counter[str](), 0
    for cell in MATRIX.cells:
        planned = plan_cell(cell, "reference", known[cell.suite, cell.case], one_gpu)
        pool = NothingStarted()
        record = run_cell(planned, one_gpu, lambda pool=pool: pool)
        if "GPUs, found 1" in record.reason:
            assert not pool.worlds, cell.id
            needing[record.reason] += 1
        else:
            assert max(pool.worlds, default=1) == 1, f"{cell.id} starts {pool.worlds} ranks on one GPU"
            assert not planned.steps or "gpus:1" in planned.needs, cell.id
            started += 1
    assert sum(needing.values()) + started == len(MATRIX.cells)
    assert set(needing) >= {f"needs {count} GPUs, found 1" for count in (2, 3, 4)}, needing


@pytest.mark.parametrize(
    ("step", "ranks", "devices"),
    [
        (Step(print), 2, 2),
        (Step(print, world=1), 1, 1),
        (Step(print, world=3), 3, 3),
        (Step(print, world=1, launches=4), 1, 4),
    ],
)
def test_what_a_step_says_goes_before_the_axis(step: Step, ranks: int, devices: int) -> None:
    assert (step.ranks(PLANTED.axes), step.devices(PLANTED.axes)) == (ranks, devices)
    assert Step(print).ranks({}) == 1


def test_a_later_step_with_more_ranks_than_the_axis_counts(one_gpu: RunContext) -> None:
    cell = dataclasses.replace(PLANTED, suite="checkpoint", case="resize", axes={"saved": 1, "resumed": 4})

    def plan(axes: Axes) -> list[Step]:
        return [Step(print, world=int(axes["saved"])), Step(print, world=int(axes["resumed"]))]

    planned = plan_cell(cell, "reference", Case("checkpoint", "resize", print, plan), one_gpu)
    record = run_cell(planned, one_gpu, NothingStarted)
    assert (record.verdict.value, record.reason) == ("NOT_RUN", "needs 4 GPUs, found 1")


@pytest.mark.parametrize(
    ("capabilities", "unknown", "verdict", "says"),
    [
        ({"ipv6": True, "cores": 4}, {}, "ERROR", "nothing was started"),
        ({"ipv6": True, "cores": 1}, {}, "NOT_RUN", "needs a host with cores >=2 (found 1)"),
        (
            {"ipv6": True},
            {"cores": "planted"},
            "NOT_RUN",
            "needs a host with cores >=2 (not known of this one: planted)",
        ),
        ({"ipv6": False, "cores": 4}, {}, "NOT_RUN", "not asked where ipv6 = false: nothing listens"),
        ({"cores": 4}, {"ipv6": "planted"}, "ERROR", "nothing was started"),  # what is not known excludes nothing
    ],
)
def test_a_cell_is_asked_where_the_host_can(
    tmp_path: Path, capabilities: dict[str, bool | int], unknown: dict[str, str], verdict: str, says: str
) -> None:
    folder = Path(shutil.copytree(PLANTED_FILES, tmp_path / "matrices"))
    suite = folder / "suites" / "planted.toml"
    text = suite.read_text(encoding="utf-8").replace('"gpus:4096"', '"can:cores>=2"')
    suite.write_text(text + EXCLUSION, encoding="utf-8")
    matrix = load_matrix(folder)
    cell = next(cell for cell in matrix.cells if cell.case == "probed")
    provenance = collect([], host_class="test")
    host = provenance.host.model_copy(update={"capabilities": capabilities, "unknown": unknown})
    here = RunContext(
        matrix=matrix,
        lane=matrix.lanes["linux_gloo"],
        transport="gloo",
        device="cpu",
        stack="pinned",
        provenance=provenance.model_copy(update={"host": host}),
    )
    planned = plan_cell(cell, "reference", Case("planted", "probed", print, lambda axes: [Step(print)]), here)
    record = run_cell(planned, here, NothingStarted)
    assert (record.verdict.value, record.reason) == (verdict, says)
