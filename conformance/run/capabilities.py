"""Asking a rank, once a run, what the host can do."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from conformance.hosts import capabilities
from conformance.model.capability import Condition, Value
from conformance.model.record import Host
from conformance.model.setting import Setting
from conformance.model.verdict import NotRun
from conformance.ranks import Job, Outcome, RankPool

DEADLINE: Final = 60.0
"""Seconds that all capabilities together may take."""

ATTEMPTS: Final = 3
"""Ranks that are asked, one after another: each goes on behind the capability at which the one before it ended."""

TOLD: Final = "docs/known-issues.md tells what each capability means"

CELL: Final = "host/capabilities"
"""What logs and process titles call the job."""


def told_by(
    pool: RankPool,
    host: Host,
    *,
    launcher: str,
    transport: str,
    device: str,
    scenario: str = f"{capabilities.__name__}:{capabilities.find.__name__}",
    names: Iterable[str] = capabilities.FINDERS,
    deadline: float = DEADLINE,
) -> Host:
    """`host` with what a rank found out about it, and why the rest is not known. Raises nothing.

    Args:
        pool: of the lane; its ranks have the environment of the lane's cells.
        launcher, transport, device: as in `Setting`.
        scenario: what the rank runs.
        names: the capabilities to ask for, in order.
        deadline: seconds an attempt.
    """
    known: dict[str, Value] = {}
    unknown: dict[str, str] = {}
    left = list(names)
    for _ in range(ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix="conformance-"))
        # Under mpiexec a world of two is what waits already.
        world = 2 if launcher == "mpi" else 1
        setting = Setting({"names": left}, None, world, launcher, transport, device, "reference", folder)
        try:
            outcome = pool.run(Job(cell=CELL, scenario=scenario, setting=setting, deadline=deadline))
            asked = _take(folder / capabilities.FILE, known, unknown)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        left = [name for name in left if name not in known and name not in unknown]
        if not left:
            break
        why = _why(outcome)
        if outcome.harness_error is not None or asked is None:
            unknown |= dict.fromkeys(left, why)
            break
        if asked in left:
            unknown[asked] = f"while it was asked for, {why}"
            left.remove(asked)
    else:
        unknown |= dict.fromkeys(left, f"not asked: {ATTEMPTS} ranks ended before it was its turn")
    return host.model_copy(
        update={"capabilities": dict(sorted(known.items())), "unknown": dict(sorted(unknown.items()))}
    )


def check(condition: Condition, host: Host) -> None:
    """Whether the host is as a cell needs it.

    Raises:
        NotRun: it is not, or it could not be found out.
    """
    if condition.holds(host.capabilities):
        return
    name = condition.name
    if name in host.capabilities:
        found = host.capabilities[name]
        shown = str(found).lower() if isinstance(found, bool) else found
        raise NotRun(f"a host with {condition} (found {shown})", f"run on such a host; {TOLD}")
    why = host.unknown.get(name, "no rank was asked")
    raise NotRun(
        f"a host with {condition} (not known of this one: {why})",
        f"run again; {TOLD}",
    )


def _take(file: Path, known: dict[str, Value], unknown: dict[str, str]) -> str | None:
    """Take in the answers in `file`; the capability that was asked for last, None where none was."""
    asked = None
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    for line in lines:
        if not line.endswith("\n"):
            break
        answer: Mapping[str, Any] = json.loads(line)
        if "asked" in answer:
            asked = str(answer["asked"])
        elif "problem" in answer:
            unknown[answer["name"]] = answer["problem"]
        else:
            known[answer["name"]] = answer["value"]
    return asked


def _why(outcome: Outcome) -> str:
    """How the rank ended, in a few words."""
    if outcome.harness_error is not None:
        return f"no rank could be started: {outcome.harness_error}"
    report = outcome.reports[0]
    if report.error is not None:
        return f"the rank raised {report.error.type}: {report.error.message}"
    code = "" if report.exit_code is None else f" (exit code {report.exit_code})"
    return f"the rank {report.status.value}{code} after {outcome.seconds:.0f} s"
