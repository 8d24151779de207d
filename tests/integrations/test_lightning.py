"""The strategies for Lightning, without other ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pytorch_lightning", reason="pytorch-lightning, which only the extra lightning brings")

from conformance.reference import Topology, TopologyError
from conformance.reference.fabric import FabricStrategy
from conformance.reference.lightning import TrainerStrategy
from conformance.reference.lightning_environment import TopologyEnvironment

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_WORLD_SIZE")


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No launcher started this process."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def launched(monkeypatch: pytest.MonkeyPatch, **values: object) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))


def test_importing_the_reference_imports_no_lightning() -> None:
    code = "import sys, conformance.reference; print([n for n in sys.modules if 'lightning' in n])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_ranks_come_from_the_launcher(nothing_set: pytest.MonkeyPatch) -> None:
    launched(
        nothing_set, RANK=5, WORLD_SIZE=8, LOCAL_RANK=1, LOCAL_WORLD_SIZE=4, MASTER_ADDR="127.0.0.1", MASTER_PORT=29400
    )
    environment = TopologyEnvironment()
    assert environment.creates_processes_externally
    environment.set_global_rank(0)
    environment.set_world_size(1)
    found = (environment.global_rank(), environment.world_size(), environment.local_rank(), environment.node_rank())
    assert found == (5, 8, 1, 1)
    environment.validate_settings(num_devices=4, num_nodes=2)
    with pytest.raises(TopologyError, match=r"found devices=1, num_nodes=1; expected a product of 8"):
        environment.validate_settings(num_devices=1, num_nodes=1)
    environment.teardown()
    assert os.environ["WORLD_SIZE"] == "8"


def test_without_a_launcher_lightning_starts_the_ranks(nothing_set: pytest.MonkeyPatch) -> None:
    environment = TopologyEnvironment()
    assert not environment.creates_processes_externally
    environment.set_world_size(2)
    environment.set_global_rank(0)
    environment.validate_settings(num_devices=2, num_nodes=1)
    assert (environment.topology.rank, environment.topology.world_size) == (0, 2)
    assert environment.topology.master_port == environment.main_port


def test_a_process_that_lightning_started_is_its_child(nothing_set: pytest.MonkeyPatch) -> None:
    launched(nothing_set, LOCAL_RANK=1, NODE_RANK=0, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=29400)
    environment = TopologyEnvironment()
    assert environment.creates_processes_externally
    environment.set_world_size(2)
    environment.set_global_rank(1)
    topology = environment.topology
    assert (topology.rank, topology.world_size, topology.local_rank, topology.master_port) == (1, 2, 1, 29400)


def test_half_an_environment_is_refused(nothing_set: pytest.MonkeyPatch) -> None:
    launched(nothing_set, RANK=1, WORLD_SIZE=2)
    with pytest.raises(TopologyError, match="LOCAL_RANK"):
        TopologyEnvironment().world_size()


def test_a_topology_of_the_callers_goes_before(nothing_set: pytest.MonkeyPatch) -> None:
    launched(nothing_set, RANK=1, WORLD_SIZE=2)
    environment = TopologyEnvironment(Topology.alone())
    assert (environment.world_size(), environment.creates_processes_externally) == (1, True)


@pytest.mark.parametrize("strategy", [TrainerStrategy, FabricStrategy])
def test_the_callers_config_and_choices_are_kept(strategy: Any, tmp_path: Path) -> None:
    config = {"zero_optimization": {"stage": 3}}
    made = strategy(config, process_group_backend="gloo")
    assert made.zero_stage_3
    assert (made.transport, made.config) == ("gloo", config)
    made.config["zero_optimization"]["stage"] = 1
    assert config == {"zero_optimization": {"stage": 3}}
    file = tmp_path / "Größe.json"
    file.write_text('{"zero_optimization": {"stage": 2}, /* a comment */ "steps_per_print": 7}', encoding="utf-8")
    assert strategy(file).config["steps_per_print"] == 7
    assert strategy(stage=1).config["zero_optimization"]["stage"] == 1


PROGRAM = """
import os, sys
import pytorch_lightning, torch
from conformance.reference.lightning import TrainerStrategy

class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, number):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)

if __name__ == "__main__":
    trainer = pytorch_lightning.Trainer(
        strategy=TrainerStrategy(stage=1), accelerator="cpu", devices=1, max_steps=3, logger=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=sys.argv[1],
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=2))
    print("steps", trainer.global_step, trainer.strategy.model.global_steps, type(trainer.strategy.model).__name__)
"""


def test_a_script_without_a_launcher_trains_and_saves(nothing_set: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "a script.py"
    script.write_text(PROGRAM, encoding="utf-8")
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=200,
        check=False,
    )
    assert "steps 3 3 DeepSpeedEngine" in done.stdout, done.stderr[-3000:]
    (checkpoint,) = (tmp_path / "checkpoints").iterdir()
    assert (checkpoint / "latest").read_text(encoding="utf-8") == "checkpoint"
    assert sorted(path.name for path in (checkpoint / "checkpoint").iterdir())[0].startswith("mp_rank_00")
