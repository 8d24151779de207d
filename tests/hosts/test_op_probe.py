"""Whether a compiled op is there."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from conformance.hosts.ops import probe as ops
from conformance.model.verdict import NotRun

LIBRARY = "cpu_adam.pyd" if sys.platform == "win32" else "cpu_adam.so"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of extensions, a DeepSpeed without ops, and a host with a compiler."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "cache of ops"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    return tmp_path / "cache of ops"


def build(cache: Path) -> Path:
    folder = cache / "cpu_adam"
    folder.mkdir(parents=True)
    (folder / LIBRARY).write_bytes(b"")
    return folder


def test_an_op_that_is_not_built_is_lacking_with_its_remedy(cache: Path) -> None:
    with pytest.raises(NotRun, match=r"needs DeepSpeed's op cpu_adam; build it ahead: python -m nox -s ops"):
        ops.probe_op("cpu_adam")
    with pytest.raises(NotRun, match="apt-get install libaio-dev, then build it ahead"):
        ops.probe_op("async_io")


def test_an_op_in_the_cache_is_there(cache: Path) -> None:
    build(cache)
    ops.probe_op("cpu_adam")


def test_locks_that_killed_ranks_left_are_removed(cache: Path) -> None:
    """Those of other ops too, which an op may need."""
    own, needed, new = build(cache) / "lock", cache / "pin_memory" / "lock", cache / "cpu_lion" / "lock"
    for each in (own, needed, new):
        each.parent.mkdir(exist_ok=True)
        each.touch()
    for each in (own, needed):
        os.utime(each, (time.time() - 90,) * 2)
    ops.probe_op("cpu_adam")
    assert [each.exists() for each in (own, needed, new)] == [False, False, True]


@pytest.mark.skipif(shutil.which("ninja") is None, reason="ninja is not installed")
def test_an_op_whose_build_was_cut_short_is_lacking(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(cache))
    monkeypatch.setattr(ops, "installed_ops", frozenset)
    folder = build(cache)
    (folder / "build.ninja").write_text(
        f"rule make\n  command = python -c x $in\nbuild {LIBRARY}: make source.cpp\n", encoding="utf-8"
    )
    (folder / "source.cpp").write_bytes(b"")
    with pytest.raises(NotRun, match=r"cpu_adam, whose build in .* is not current; build it ahead|the command c"):
        ops.probe_op("cpu_adam")


def test_an_op_that_is_being_built_is_waited_for(cache: Path) -> None:
    folder = build(cache)
    (folder / "lock").touch()
    with psutil.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd=folder) as compiler:
        try:
            with pytest.raises(NotRun, match="cpu_adam, which is being built; wait for that to end"):
                ops.probe_op("cpu_adam")
        finally:
            compiler.kill()


def test_a_cached_op_without_ninja_is_of_no_use(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(cache)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "ninja" else name)
    with pytest.raises(NotRun, match="the command ninja"):
        ops.probe_op("cpu_adam")


def test_an_op_that_was_installed_with_deepspeed_is_there(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "deepspeed"
    package.mkdir()
    written = "version='0'\ninstalled_ops={'cpu_adam': True, 'async_io': False}\n"
    (package / "git_version_info_installed.py").write_text(written, encoding="utf-8")
    spec = SimpleNamespace(submodule_search_locations=[str(package)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert ops.installed_ops() == {"cpu_adam"}
    ops.probe_op("cpu_adam")
    with pytest.raises(NotRun):
        ops.probe_op("async_io")


def test_the_default_cache_is_looked_at(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR")
    windows = sys.platform == "win32"
    monkeypatch.setenv("LOCALAPPDATA" if windows else "XDG_CACHE_HOME", str(tmp_path))
    inner = "torch_extensions/Cache" if windows else ""
    build(tmp_path / "torch_extensions" / inner / f"py{sys.version_info.major}{sys.version_info.minor}_cpu")
    ops.probe_op("cpu_adam")
