"""Kinds of host: each is emulable as it says, changes something, and knows where it cannot be."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from conformance.matrix import load_matrix
from conformance.model.cell import matches
from tools.hosts import ground, running
from tools.hosts.ground import Ground, obstacle
from tools.hosts.kind import PLAIN, Conditions, Kind
from tools.hosts.kinds import KINDS

CAPABLE = Ground(
    system="linux",
    root=True,
    commands=frozenset(ground.COMMANDS),
    cpu=frozenset({"avx512f", "avx512_bf16", "avx512_fp16", "amx_tile"}),
    cores=8,
    environment={"HOME": "/home/somebody", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    memory_control="",
)
BY_NAME = {kind.name: kind for kind in KINDS}


def test_a_capable_machine_can_be_every_kind() -> None:
    assert {kind.name: why for kind in KINDS if (why := obstacle(kind, CAPABLE)) is not None} == {}


def test_names_are_folders_and_no_kind_is_the_plain_one() -> None:
    assert len(BY_NAME) == len(KINDS)
    assert all(name == name.lower() and name.replace("-", "").isalnum() for name in BY_NAME)
    assert all(kind.conditions != Conditions() for kind in KINDS)
    assert PLAIN.name not in BY_NAME


def test_the_cells_that_kinds_name_exist() -> None:
    cells = load_matrix().cells
    missing = [glob for kind in KINDS for glob in kind.cells if not any(matches(glob, cell.id) for cell in cells)]
    assert missing == []


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        ("shm-64mb", {"system": "win32"}, "needs Linux"),
        ("shm-64mb", {"root": False}, "needs root"),
        ("nameless-user", {"root": False}, "needs root"),
        ("no-ipv6", {"commands": frozenset({"unshare", "mount"})}, "needs the command ip"),
        ("locale-gbk", {"commands": frozenset()}, "needs the command localedef"),
        ("memory-3gib", {"memory_control": "needs a memory controller"}, "needs a memory controller"),
        ("isa-avx512-bf16", {"cpu": frozenset({"avx2"})}, "this CPU has none of amx_tile, avx512_fp16"),
        ("isa-uncapped", {"environment": {}}, "this machine is such a host as it is"),
        ("no-home", {"environment": {}}, "this machine is such a host as it is"),
        ("one-core", {"cores": 1}, "this process may use 1 core anyway"),
    ],
)
def test_what_a_machine_lacks_is_said(kind: str, changes: dict[str, object], says: str) -> None:
    why = obstacle(BY_NAME[kind], dataclasses.replace(CAPABLE, **changes))  # type: ignore[arg-type]
    assert why is not None and says in why


@pytest.mark.parametrize("kind", ["one-core", "busy", "locale-c", "job-slurm", "fp16-in-software", "umask-077"])
def test_what_needs_no_right_needs_no_root(kind: str) -> None:
    assert obstacle(BY_NAME[kind], dataclasses.replace(CAPABLE, root=False)) is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_conditions_survive_the_way_into_the_host(kind: Kind) -> None:
    assert Conditions.from_plain(json.loads(json.dumps(kind.conditions.to_plain()))) == kind.conditions


class TestVariables:
    def test_those_of_the_kind_are_set_and_unset_and_the_others_kept(self) -> None:
        kind = Kind("some", "", Conditions(environment={"HOME": None, "SLURM_JOB_ID": "1"}))
        assert running.environment(kind, {"HOME": "/root", "PATH": "/bin"}, Path("made")) == {
            "PATH": "/bin",
            "SLURM_JOB_ID": "1",
        }

    def test_a_made_locale_is_found_and_c_needs_none(self) -> None:
        gbk = running.environment(BY_NAME["locale-gbk"], {"LANGUAGE": "de"}, Path("made"))
        assert (gbk["LC_ALL"], gbk["LOCPATH"], gbk["PYTHONUTF8"]) == ("zh_CN.GBK", "made", "0")
        assert "LANGUAGE" not in gbk
        assert "LOCPATH" not in running.environment(BY_NAME["locale-c"], {}, Path("made"))

    def test_the_preload_stands_before_what_was_on_the_path(self) -> None:
        path = running.environment(BY_NAME["fp16-in-software"], {"PYTHONPATH": "mine"}, Path("made"))["PYTHONPATH"]
        first, second = path.split(os.pathsep)
        assert (Path(first) / "sitecustomize.py").is_file()
        assert second == "mine"
