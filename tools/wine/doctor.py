"""Does a Windows environment work, and if not, what is to be done?"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from tools.wine import runner
from tools.wine.environment import WineEnvironment
from tools.wine.errors import WineError
from tools.wine.interpreter import VERSION
from tools.wine.requirements import Requirements

PROBE: Final = Path(__file__).with_name("probe.py")
SECONDS: Final = 300.0
"""How long one examination may take; the first import of torch and DeepSpeed compiles them."""

RANKS: Final = 2
REBUILD: Final = "make the environment anew: delete its folder, then python -m tools.wine make"
LACKING: Final = f"a missing DLL or function is what this Wine lacks: use Wine 8.0, as Debian 12 has it; else {REBUILD}"

Answer = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one examination found.

    Attributes:
        what: what was examined.
        ok: whether it works.
        found: what was found.
        remedy: what to do; empty when it works.
    """

    what: str
    ok: bool
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{'ok  ' if self.ok else 'FAIL'} {self.what}: {self.found}"
        return f"{line}; {self.remedy}" if self.remedy else line


def examine(environment: WineEnvironment, requirements: Requirements) -> Iterator[Finding]:
    """Examine an environment, one finding after the other; the first that fails is the last, as the rest needs it.

    Args:
        requirements: what it should hold.
    """
    for examination in (_files, _interpreter, _packages(requirements), _sockets, _training, _ranks(requirements)):
        finding = examination(environment)
        if finding is None:
            continue
        yield finding
        if not finding.ok:
            return


def _files(environment: WineEnvironment) -> Finding:
    if not os.access(environment.wine, os.X_OK):
        remedy = "install wine64 (Debian: apt-get install --no-install-recommends wine64)"
        return Finding("wine", False, f"found no program {environment.wine}", remedy)
    if not environment.python.is_file():
        return Finding("python", False, f"found no {environment.python}", REBUILD)
    return Finding("wine", True, str(environment.wine))


def _interpreter(environment: WineEnvironment) -> Finding:
    answer = _ask(environment, "versions")
    if isinstance(answer, str):
        return Finding("python", False, answer, LACKING)
    found = f"{answer['python']} on {answer['platform']}"
    if answer["platform"] != "win32" or not answer["python"].startswith(f"{VERSION[0]}.{VERSION[1]}."):
        return Finding("python", False, f"found {found}, expected {VERSION[0]}.{VERSION[1]} on win32", REBUILD)
    return Finding("python", True, found)


def _packages(requirements: Requirements) -> Callable[[WineEnvironment], Finding]:
    def examination(environment: WineEnvironment) -> Finding:
        answer = _ask(environment, "versions")
        if isinstance(answer, str):
            return Finding("packages", False, answer, REBUILD)
        found = {canonicalize_name(name): str(version) for name, version in answer["packages"].items()}
        wrong = [
            f"{pin.name} {found.get(pin.name, 'absent')} (expected {pin.version})"
            for pin in requirements.pins
            if not _same(found.get(pin.name), pin.version)
        ]
        if wrong:
            return Finding("packages", False, f"found {', '.join(wrong)}", REBUILD)
        return Finding("packages", True, f"all {len(requirements.pins)} as pinned")

    return examination


def _same(found: str | None, expected: Version) -> bool:
    try:
        return found is not None and Version(found).public == expected.public
    except InvalidVersion:
        return False


def _sockets(environment: WineEnvironment) -> Finding:
    answer = _ask(environment, "sockets")
    if isinstance(answer, str):
        remedy = "ranks meet on 127.0.0.1: let processes here listen on it"
        return Finding("sockets", False, answer, remedy)
    if answer["echo"] != "to and fro":
        remedy = "use Wine 8.0, as Debian 12 has it"
        return Finding("sockets", False, f"found {answer['echo']!r}, expected 'to and fro'", remedy)
    return Finding("sockets", True, f"loopback works, this host is {answer['address']}")


def _training(environment: WineEnvironment) -> Finding:
    answer = _ask(environment, "training")
    if isinstance(answer, str):
        return Finding("training", False, answer, LACKING)
    if answer["gradient"] != [[1.0, 1.0]] or not answer["gloo"]:
        return Finding("training", False, f"found {answer}, expected the gradient [[1.0, 1.0]] and gloo", REBUILD)
    return Finding("training", True, f"torch {answer['torch']} with gloo, deepspeed {answer['deepspeed']}")


def _ranks(requirements: Requirements) -> Callable[[WineEnvironment], Finding | None]:
    def examination(environment: WineEnvironment) -> Finding | None:
        names = {pin.name for pin in requirements.pins}
        if not {canonicalize_name("impi-rt"), canonicalize_name("mpi4py")} <= names:
            return None
        answer = _ask(environment, "ranks", "mpiexec", "-localonly", "-n", str(RANKS))
        if isinstance(answer, str):
            return Finding("mpiexec", False, answer, REBUILD)
        if answer["ranks"] != RANKS:
            remedy = "mpi4py and mpiexec are not of one MPI; pin impi-rt alone"
            return Finding("mpiexec", False, f"found worlds of {answer['ranks']}, expected one of {RANKS}", remedy)
        return Finding("mpiexec", True, f"{RANKS} ranks, {answer['library']}")

    return examination


def _ask(environment: WineEnvironment, question: str, *launcher: str) -> Answer | str:
    """The answer of the environment's Python to a question, or what happened instead."""
    try:
        finished = runner.capture(
            environment, [*launcher, "python", PROBE, question], timeout=SECONDS, cwd=environment.folder
        )
    except WineError as error:
        return str(error)
    if finished.code is None:
        return f"found no answer after {SECONDS:.0f} s"
    answer = parse_answer(finished.text) if finished.code == 0 else None
    return f"found exit code {finished.code}: {_last_lines(finished.text)}" if answer is None else answer


def parse_answer(text: str) -> Answer | None:
    """The answer in what the probe and the libraries that it imports printed; None without one.

    Ranks print to one pipe, and so their answers may share a line: the first of them counts.
    """
    for line in text.splitlines():
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                answer: Answer = json.JSONDecoder().raw_decode(line)[0]
                return answer
    return None


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-3:]) or "no output"
