"""Cells in short: every script is short and stands alone, and shows the fault that is known, or none."""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from conformance.__main__ import main
from conformance.matrix import load_matrix
from conformance.repro.command import BARE, NoShortFormError, script
from conformance.repro.exact import Replay

MATRIX = load_matrix()
CELLS = {cell.id: cell for cell in MATRIX.cells}
ISSUES = {issue.id: issue for issue in MATRIX.known_issues}
RUNNER = Path(__file__).with_name("run_forked.py")
WITH = {
    # by integration: the modules that its scripts may import beside torch and DeepSpeed
    "accelerate": {"accelerate"},
    "transformers": {"transformers"},
    "lightning": {"pytorch_lightning"},
    "lightning-own": {"pytorch_lightning"},
}


ALL = "CONFORMANCE_ALL_FAULTS"
"""The variable that asks for the scripts of all known faults, not of some."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """A known fault, and how a script shows it.

    Attributes:
        says: a pattern of what the script says; the known issue's own by default.
        quick: whether it is run with the tests that are not slow.
        integration: what the script drives, where it is not DeepSpeed alone.
        op: the compiled op that it needs.
        rare: whether it is a race, which a run may miss.
    """

    issue: str
    cell: str
    says: str = ""
    quick: bool = False
    integration: str = BARE
    op: str = ""
    rare: bool = False

    @property
    def replay(self) -> Replay:
        cell = CELLS[self.cell]
        lane = next(lane for lane in MATRIX.lanes.values() if cell.lanes is None or lane.name in cell.lanes)
        return Replay(cell, lane, lane.transports[0], self.integration)

    def lacks(self) -> str:
        """What is not here that the script needs; empty for nothing."""
        missing = [each for each in WITH.get(self.integration, ()) if importlib.util.find_spec(each) is None]
        if missing:
            return f"{missing[0]} is not installed"
        ops = Path(os.environ.get("TORCH_EXTENSIONS_DIR", Path.home() / ".cache" / "torch_extensions"))
        if self.op and not (ops / self.op / f"{self.op}.so").exists():
            return f"the op {self.op} is not built"
        return ""

    def is_here(self, capabilities: dict[str, Any]) -> bool:
        """Whether the installed versions have the fault, on a device that can do so much."""
        issue = ISSUES[self.issue]
        installed = {name: importlib.metadata.version(name) for name in issue.versions}
        matching = all(SpecifierSet(issue.versions[name]).contains(found) for name, found in installed.items())
        return matching and all(condition.holds(capabilities) for condition in issue.capabilities)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of scripts.

    Attributes:
        capabilities: what the device can do.
        ends: by issue, the exit code (None: ended late) and what the script said.
    """

    capabilities: dict[str, Any]
    ends: dict[str, tuple[int | None, str]]


WEIGHTS = "not plain PyTorch's training: weights off by "
FAULTS = (
    Fault(
        "parameter-without-dimensions-cannot-be-broadcast",
        "zero/uncommon_parameter[model=scalar,stage=1,dtype=fp32,world=2]",
        quick=True,
    ),
    Fault(
        "torch-scheduler-by-config-with-zero",
        "initialize/scheduler[call=deepspeed,kind=torch_by_config,stage=1,world=2]",
        quick=True,
    ),
    Fault(
        "gloo-works-on-the-wrong-elements-of-strided-tensors",
        "collectives/operation[operation=all_reduce,dtype=fp32,shape=strided,members=world,world=2]",
        r"all_reduce gave \[.*\], expected \[",
        quick=True,
    ),
    Fault("azure-needs-nccl-interface", "launch/cloud[call=deepspeed,cloud=azure,world=2]", quick=True),
    Fault("restart-after-torch-destroyed", "launch/restart_after_torch[call=deepspeed,world=1]", "Group .* is not reg"),
    Fault(
        "open-mpi-local-rank-with-args", "initialize/open_mpi_local_rank[call=deepspeed,value=alone_with_args,world=2]"
    ),
    Fault(
        "scheduler-of-another-optimizer-accepted",
        "initialize/scheduler_of_another_optimizer[optimizer=config,world=2]",
        r"accepted, giving an engine whose rates were \[\[0\.01\], \[0\.01\]",
    ),
    Fault(
        "stage0-bf16-optimizer-steps-at-start",
        "zero/train[stage=0,dtype=bf16,world=2,accumulation=2,clipping=true]",
        WEIGHTS + r"0\.[23]",
    ),
    Fault(
        "load-refuses-without-a-word",
        "checkpoint/latest[latest=nowhere,stage=2,world=2]",
        "raised 'AssertionError: ', expected an error that names step9",
    ),
    Fault("load-of-zero-checkpoint-without-zero", "checkpoint/change_stage[stage=1,to_stage=0,world=2]"),
    Fault("zero-to-fp32-of-stage-0", "checkpoint/whole_weights[stage=0,dtype=fp32,by=function,world=2]"),
    Fault(
        "stage0-bf16-weights-lost-without-optimizer-states",
        "checkpoint/load_part[stage=0,dtype=bf16,part=no_optimizer,world=2]",
        "not the training without interruption: weights off by 1",
    ),
    Fault(
        "stage0-bf16-part-loaded-optimizer-steps-at-start",
        "checkpoint/load_part[stage=0,dtype=bf16,part=module_only,world=2]",
        r"not the training without interruption: weights off by 0\.0",
    ),
    Fault(
        "stage3-load-module-only-does-nothing",
        "checkpoint/load_part[stage=3,dtype=fp32,part=module_only,world=2]",
        "loading changed nothing",
    ),
    Fault("latest-is-not-written-atomically", "checkpoint/killed_save[at=latest,stage=2,world=2]"),
    Fault("ranks-train-alone", "launch/variable_missing[call=deepspeed,missing=RANK,mpi=alone,world=2]"),
    Fault("another-mpi-trains-alone", "launch/another_mpi[call=deepspeed,world=2]"),
    Fault("hostname-missing-or-silent", "launch/hostname_command[call=deepspeed,answer=missing,world=1]"),
    Fault("negative-local-rank-is-rank-0", "launch/local_rank_wrong[call=deepspeed,value=negative,world=2]"),
    Fault("silent-listener-outlasts-timeout", "launch/port_taken[call=deepspeed,world=2]"),
    Fault(
        "restart-meets-the-old-store",
        "launch/restart[call=deepspeed,store=rank_0,late=1,world=2]",
        "connectFullMesh failed|[Tt]imed out|Connection|DistStoreError",
        rare=True,
    ),
    Fault(
        "restart-in-an-agents-store",
        "launch/restart[call=deepspeed,store=agent,late=0,world=2]",
        "connectFullMesh failed|[Tt]imed out|Connection",
    ),
    Fault(
        "stage3-parameter-without-elements",
        "zero/uncommon_parameter[model=empty,stage=3,dtype=bf16,world=2]",
        r"AssertionError: \{'id': 0, 'status': 'NOT_AVAILABLE'|torch\.cat\(\): expected a non-empty list",
    ),
    Fault(
        "round-robin-gradients-mislead-fp32-fragments",
        "zero/feature[feature=round_robin_gradients,stage=2,dtype=bf16,world=2,accumulation=2,clipping=true]",
    ),
    Fault(
        "round-robin-gradients-break-resized-universal-checkpoints",
        "checkpoint/universal_round_robin[partition=round_robin,stage=1,dtype=fp32,saved=2,resumed=1,info=injected]",
        "after the resume not the training without interruption",
    ),
    Fault(
        "offload-accepted-without-effect",
        "offload/without_effect[stage=0,optimizer=none,parameters=cpu,dtype=fp32,world=2]",
    ),
    Fault(
        "stage3-universal-checkpoint-gives-all-groups-the-options-of-the-first",
        "checkpoint/universal_groups[stage=3,dtype=fp32,saved=2,resumed=1,info=injected]",
    ),
    Fault(
        "fp32-parameters-on-nvme-are-bf16",
        "offload/train[stage=3,optimizer=none,parameters=nvme,dtype=fp32,adam=torch,world=2]",
        op="async_io",
    ),
    Fault(
        "nvme-gradients-at-unaligned-addresses-are-not-read",
        "offload/train[stage=3,optimizer=nvme,parameters=none,dtype=fp32,adam=torch,world=2]",
        WEIGHTS,
        op="async_io",
    ),
    Fault(
        "nvme-optimizer-resumes-without-its-step-count",
        "offload/resume[stage=3,optimizer=nvme,parameters=none,dtype=bf16,world=2]",
        "after the resume not the training without interruption",
        op="async_io",
    ),
    Fault(
        "nvme-swap-files-are-named-by-a-count-of-the-process",
        "offload/resume[stage=3,optimizer=nvme,parameters=none,dtype=fp32,world=2]",
        "loading changed nothing",
        integration="lightning",
        op="async_io",
    ),
    Fault(
        "nvme-checkpoint-cannot-be-saved-twice-under-one-tag",
        "offload/resume[stage=3,optimizer=nvme,parameters=none,dtype=bf16,world=2]",
        integration="transformers",
        op="async_io",
    ),
    Fault(
        "parameters-on-nvme-cannot-be-loaded",
        "offload/resume[stage=3,optimizer=none,parameters=nvme,dtype=bf16,world=2]",
        op="async_io",
    ),
    Fault(
        "nvme-path-missing-is-not-named",
        "offload/swap_place[stage=3,optimizer=nvme,parameters=none,place=none,dtype=bf16,world=2]",
        op="async_io",
    ),
    Fault("accelerate-alone-without-gpu", "integrations/knows_its_ranks[world=2]", integration="accelerate"),
    Fault(
        "accelerate-steps-in-each-backward",
        "integrations/accumulation[loop=plain,stage=2,world=2]",
        "the engine took 8 steps of 2 micro-batches, expected 4",
        integration="accelerate",
    ),
    Fault(
        "accelerate-no-sync-steps-inside",
        "integrations/accumulation[loop=no_sync,stage=1,world=2]",
        integration="accelerate",
    ),
    Fault(
        "accelerate-clip-grad-norm-without-effect",
        "integrations/clipping[asked=loop,stage=2,world=2]",
        WEIGHTS,
        integration="accelerate",
    ),
    Fault(
        "accelerate-scheduler-steps-by-world",
        "integrations/schedule[given=object,stage=2,world=2]",
        integration="accelerate",
    ),
    Fault(
        "trainer-drops-client-optimizer",
        "integrations/client_optimizer[stage=2,world=1]",
        integration="transformers",
    ),
    Fault(
        "lightning-trainer-dies-of-mpi4py-without-library",
        "lightning/unusable_mpi4py[world=2]",
        integration="lightning-own",
    ),
    Fault(
        "lightning-mixed-precision-casts-targets",
        "lightning/precision[by=trainer,stage=1,world=2]",
        integration="lightning",
    ),
    # Of older releases.
    Fault(
        "zero2-keeps-the-last-micro-batch",
        "zero/train[stage=2,dtype=fp32,world=2,accumulation=2,clipping=true]",
        WEIGHTS,
    ),
    Fault("zero1-and-2-gather-into-a-buffer-with-gradients", "checkpoint/resume[stage=1,dtype=fp32,world=2]"),
    Fault("bf16-without-zero-cannot-be-loaded", "checkpoint/resume[stage=0,dtype=bf16,world=2]"),
    Fault(
        "an-output-of-an-output-is-divided-twice",
        "zero/outputs[model=in_tuple,stage=1,dtype=fp32,world=2,accumulation=2]",
        WEIGHTS,
    ),
    Fault("no-object-collective", "collectives/objects[world=2]"),
    Fault(
        "callers-config-loses-torch-adam",
        "initialize/args_omitted[call=deepspeed,stage=0,world=2]",
        "trains with <class 'deepspeed.ops.adam.fused_adam.FusedAdam'>",
    ),
    Fault(
        "path-object-as-config-ends-in-a-type-error",
        "initialize/config_refused[call=deepspeed,wrong=path_object,world=2]",
    ),
    Fault("timeout-of-half-an-hour", "initialize/group_timeout[call=deepspeed,given=nothing,world=2]"),
    Fault("groups-outlive-torch-distributed", "zero/rebuilt_engine[stage=2,dtype=fp32,world=2]"),
    Fault(
        "universal-load-puts-states-in-the-weights-place",
        "checkpoint/universal_groups[stage=2,dtype=fp32,saved=2,resumed=1,info=injected]",
    ),
)


def test_most_known_faults_have_a_short_form() -> None:
    assert len({fault.issue for fault in FAULTS}) == len(FAULTS) >= 40
    for fault in FAULTS:
        runs = [(lane.name, transport) for lane in MATRIX.lanes.values() for transport in lane.transports]
        cell, issue = CELLS[fault.cell], ISSUES[fault.issue]
        assert any(issue.covers(cell, *run, fault.integration) for run in runs), f"{issue.id} is not about {cell.id}"


def test_every_short_form_is_short_and_stands_alone(tmp_path: Path) -> None:
    shown = 0
    for cell in MATRIX.cells:
        for integration in (BARE, *WITH):
            lane = next(lane for lane in MATRIX.lanes.values() if cell.lanes is None or lane.name in cell.lanes)
            replay = Replay(cell, lane, lane.transports[0], integration)
            try:
                text = script(replay, MATRIX)
            except NoShortFormError:
                continue
            lines = text.splitlines()
            assert len(lines) <= 80, f"{cell.id} takes {len(lines)} lines"
            assert max(map(len, lines)) <= 120, f"{cell.id}: {max(lines, key=len)}"
            modules = {
                name.partition(".")[0]
                for node in ast.walk(ast.parse(text, cell.id))
                if isinstance(node, ast.Import | ast.ImportFrom)
                for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [e.name for e in node.names])
            }
            allowed = {*sys.stdlib_module_names, "torch", "deepspeed", *WITH.get(integration, ())}
            assert modules <= allowed, f"{cell.id} imports {modules - allowed}"
            (tmp_path / f"script_{shown}.py").write_text(text, encoding="utf-8")
            shown += 1
    assert shown > 600, f"only {shown} cells have a short form"
    if importlib.util.find_spec("ruff") is not None:
        rules = ["--select", "F821,F811,F401,F841,E9"]
        command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", *rules, str(tmp_path)]
        found = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)
        assert found.returncode == 0, found.stdout + found.stderr


def run_forked(faults: list[Fault], folder: Path) -> Outcome:
    """Run each fault's script, all in forks of one process."""
    files = [folder / f"{fault.issue}.py" for fault in faults]
    for fault, file in zip(faults, files, strict=True):
        file.write_text(script(fault.replay, MATRIX), encoding="utf-8")
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", str(RUNNER), *map(str, files)]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    capabilities, *ends = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(ends) == len(files), done.stdout + done.stderr[-2000:]
    said = [file.with_suffix(".log").read_text("utf-8", "replace") for file in files]
    return Outcome(
        capabilities,
        {fault.issue: (end["code"], text) for fault, end, text in zip(faults, ends, said, strict=True)},
    )


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_forked([fault for fault in FAULTS if fault.quick], tmp_path_factory.mktemp("quick"))


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    chosen = [fault for fault in FAULTS if not fault.quick and not fault.lacks()]
    return run_forked(chosen, tmp_path_factory.mktemp("rest"))


def judge(fault: Fault, outcome: Outcome) -> None:
    """The script shows the fault where the installed versions have it, and else none."""
    code, said = outcome.ends[fault.issue]
    if not fault.is_here(outcome.capabilities) or (fault.rare and code == 0):
        assert code == 0 and said.rstrip().endswith("PASS"), f"exit code {code}\n{said[-1500:]}"
        return
    assert code == 1 and "FAIL with deepspeed" in said, f"exit code {code}\n{said[-1500:]}"
    wanted = fault.says or ISSUES[fault.issue].match
    assert re.search(wanted, said), f"not the fault that is known: {said[-1500:]}"


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the scripts are run in forks")


@forks
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.quick], ids=lambda fault: fault.issue)
def test_a_script_shows_its_fault(fault: Fault, quick: Outcome) -> None:
    judge(fault, quick)


@forks
@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get(ALL), reason=f"takes a quarter of an hour: set {ALL}=1 to run it")
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if not fault.quick], ids=lambda fault: fault.issue)
def test_the_other_scripts_show_theirs(fault: Fault, rest: Outcome) -> None:
    if lack := fault.lacks():
        pytest.skip(lack)
    judge(fault, rest)


@pytest.mark.slow
def test_a_script_starts_its_own_ranks(tmp_path: Path) -> None:
    fault = next(fault for fault in FAULTS if fault.issue == "parameter-without-dimensions-cannot-be-broadcast")
    file = tmp_path / "a script.py"
    assert main(["repro", fault.cell, "--into", str(file)]) == 0
    command = [sys.executable, "-P", str(file)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, encoding="utf-8", errors="replace", timeout=600, check=False
    )
    judge(fault, Outcome({}, {fault.issue: (done.returncode, done.stdout + done.stderr)}))


def test_a_cell_without_a_short_form_is_told_of_the_exact_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repro", "launch/launcher[launcher=torchrun,call=deepspeed]"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "has no short form" in line and "--exact" in line


def test_an_unknown_cell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repro", "zero/train[stage=9]"]) == 2
    assert "error: CELL: found 'zero/train[stage=9]', expected a cell's id in full" in capsys.readouterr().err
