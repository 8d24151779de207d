"""Which of DeepSpeed's ops are built here, which could be, and what is lacking for the others."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.hosts.ops import probe as ops

WANTED = ("cpu_adam", "cpu_adagrad", "cpu_lion", "fused_adam", "async_io", "pin_memory", "deepspeed_shm_comm")
"""The ops that cells use, or that training can be made to use."""

TIMEOUT = 600.0
"""Seconds for DeepSpeed to import and probe; some with a compiler, more on a busy host."""

BUILT, BUILDABLE, LACKING = "built", "not built", "lacking"


class SurveyError(Exception):
    """DeepSpeed could not be asked for its ops; the text holds what it said."""


@dataclasses.dataclass(frozen=True)
class Op:
    """An op on this host.

    Attributes:
        state: `built`, `not built` (but it can be) or `lacking`.
        words: where it lies, or what is lacking and the remedy.
    """

    name: str
    state: str
    words: str = ""


def toolchain_lacks(system: str = sys.platform) -> str | None:
    """What is missing to compile anything, with the remedy; None when nothing is."""
    if system == "win32" and shutil.which("cl") is None:
        return (
            "the compiler cl: install Visual Studio Build Tools with C++, "
            "and start this in a developer command prompt (x64 Native Tools)"
        )
    if system != "win32" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        return "a C++ compiler: apt-get install g++"
    if shutil.which("ninja") is None:
        return "the command ninja: python -m pip install ninja"
    return None


def survey(command: Sequence[str], environment: Mapping[str, str], *, names: Sequence[str] = WANTED) -> list[Op]:
    """Each op of `names` on this host.

    Args:
        command: what writes the answer of `tools.ops.child` to the file that is added as its last word.
        environment: of that command.

    Raises:
        SurveyError: the command failed.
    """
    lack = toolchain_lacks()
    if lack is not None:
        return [_built(name) or Op(name, LACKING, lack) for name in names]
    answer = _ask(command, environment)
    return [_built(name) or _unbuilt(name, answer.get(name)) for name in names]


def _ask(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="conformance-ops-") as folder:
        file = Path(folder) / "survey.json"
        try:
            subprocess.run(
                [*command, str(file)],
                check=True,
                timeout=TIMEOUT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                encoding="utf-8",
                errors="replace",
            )
            answer: dict[str, dict[str, object]] = json.loads(file.read_text(encoding="utf-8"))
        except subprocess.CalledProcessError as error:
            last = "\n".join((error.stdout or "").splitlines()[-10:])
            raise SurveyError(
                f"DeepSpeed could not be asked for its ops (exit code {error.returncode}):\n{last}"
            ) from None
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise SurveyError(f"DeepSpeed could not be asked for its ops: {error}") from None
    return answer


def _built(name: str) -> Op | None:
    if name in ops.installed_ops():
        return Op(name, BUILT, "with the installed DeepSpeed")
    folder = ops.cached(name)
    if folder is not None and not (folder / "lock").exists() and ops.is_current(folder):
        return Op(name, BUILT, str(folder))
    return None


def _unbuilt(name: str, answer: Mapping[str, object] | None) -> Op:
    if answer is None:
        return Op(name, LACKING, "this DeepSpeed has no such op for this accelerator")
    if not answer["compatible"]:
        remedy = f"; apt-get install {ops.LIBRARIES[name]}" if name in ops.LIBRARIES and sys.platform == "linux" else ""
        return Op(name, LACKING, f"{answer['why']}{remedy}")
    return Op(name, BUILDABLE)
