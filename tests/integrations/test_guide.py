"""The integration of the guide is whole: registered as its installation would, core cells pass with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from conformance.integrations import registry
from conformance.model.record import read_records

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "integration"
GUIDE = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
CELLS = (
    "zero/train[stage=2,dtype=fp32,world=2,accumulation=2,clipping=true]",
    "checkpoint/resume[stage=1,dtype=fp32,world=2]",
)


def install(folder: Path) -> None:
    """What pip leaves in site-packages for the example: its module, and a dist-info made from its pyproject.toml."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    text = f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\nRequires-Dist: deepspeed\n"
    (metadata / "METADATA").write_text(text, encoding="utf-8")
    lines = [f"{name} = {place}" for name, place in project["entry-points"][registry.GROUP].items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{registry.GROUP}]", *lines, ""]), encoding="utf-8")
    module = (EXAMPLE / "tiny_integration.py").read_text(encoding="utf-8")
    (folder / "tiny_integration.py").write_text(module, encoding="utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="the lane linux_gloo is for Linux")
def test_core_cells_run_through_the_guide_s_integration(tmp_path: Path) -> None:
    install(tmp_path / "site packages")
    command = [sys.executable, "-m", "conformance", "run", "--lane", "linux_gloo", "--integration", "tiny"]
    command += ["--report-folder", str(tmp_path / "results"), *(word for cell in CELLS for word in ("--cell", cell))]
    path = os.pathsep.join(filter(None, [str(tmp_path / "site packages"), os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, encoding="utf-8", timeout=170
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    records = list(read_records(tmp_path / "results" / "records.jsonl"))
    assert {(record.cell, record.integration, record.verdict.value) for record in records} == {
        (cell, "tiny", "PASS") for cell in CELLS
    }
    assert all(record.provenance.packages["tiny-integration"] == "1.0" for record in records)


def test_the_guide_shows_the_example() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert shown == (EXAMPLE / "tiny_integration.py").read_text(encoding="utf-8")
    (entry,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    assert entry in (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")


def test_the_guide_names_every_integration() -> None:
    table = GUIDE.partition("## ")[0]
    assert set(registry._OURS) <= set(re.findall(r"`([\w-]+)`", table))
