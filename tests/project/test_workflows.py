"""The workflows: valid, pinned, least-privileged, and made of nox sessions that exist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*$")
SESSION = re.compile(
    r"""(?:python|python3\.11|py\ -3\.11)\ -m\ nox
        (?:\ --envdir\ "\$(?:env:)?RUNNER_TOOL_CACHE/conformance")?
        \ -s\ "?(?P<session>[\w$:]+)"?
        (?:\ --\ .*)?""",
    re.VERBOSE,
)
PLUMBING = ("python -m pip install nox", 'cat report/report.md >> "$GITHUB_STEP_SUMMARY"')


def jobs_of(path: Path) -> dict[str, dict[str, Any]]:
    content = YAML(typ="safe").load(path)
    jobs: dict[str, dict[str, Any]] = content["jobs"]
    return jobs


ALL_JOBS = [pytest.param(job, id=f"{path.stem}-{name}") for path in WORKFLOWS for name, job in jobs_of(path).items()]

ALL_BY_NAME = {name: job for path in WORKFLOWS for name, job in jobs_of(path).items()}


def steps_of(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from job["steps"]


def run_tool(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, encoding="utf-8", cwd=ROOT, timeout=120)


def test_there_are_workflows() -> None:
    assert "conformance" in [path.stem for path in WORKFLOWS]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
class TestFiles:
    def test_valid_by_the_schema(self, path: Path) -> None:
        checked = run_tool(
            sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr

    def test_the_security_linter_finds_nothing(self, path: Path) -> None:
        zizmor = shutil.which("zizmor", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]))
        assert zizmor is not None
        checked = run_tool(zizmor, "--offline", "--no-config", "--persona", "pedantic", str(path))
        assert checked.returncode == 0, checked.stdout + checked.stderr

    def test_actions_are_pinned_by_commit_and_say_their_version(self, path: Path) -> None:
        used = [line.strip().removeprefix("- ") for line in path.read_text(encoding="utf-8").splitlines()]
        used = [line for line in used if line.startswith("uses:")]
        assert used
        assert [line for line in used if not PINNED.match(line)] == []

    def test_a_token_may_read_contents_and_where_named_one_thing_more(self, path: Path) -> None:
        content = YAML(typ="safe").load(path)
        assert content["permissions"] == {"contents": "read"}
        allowed = {
            "newly-failing": {"contents": "read", "issues": "write"},
            "deploy": {"pages": "write", "id-token": "write"},
        }
        granted = {name: job["permissions"] for name, job in content["jobs"].items() if "permissions" in job}
        assert granted.items() <= allowed.items()
        assert "pull_request_target" not in content[True if True in content else "on"]
        assert content["concurrency"]["group"]


@pytest.mark.parametrize("job", ALL_JOBS)
class TestJobs:
    def test_ends_in_time(self, job: dict[str, Any]) -> None:
        assert 0 < job["timeout-minutes"] <= 300

    def test_no_self_hosted_runner_for_a_pull_request(self, job: dict[str, Any]) -> None:
        if "self-hosted" in job["runs-on"]:
            assert "github.event_name != 'pull_request'" in job["if"]
            assert job["environment"] == "gpu-runners"

    def test_a_pull_request_writes_nothing(self, job: dict[str, Any]) -> None:
        if "permissions" in job:
            needed = [job, *(ALL_BY_NAME[name] for name in [job["needs"]] if isinstance(name, str))]
            conditions = " ".join(each["if"] for each in needed)
            assert "github.event_name != 'pull_request'" in conditions
            assert "github.ref_name == github.event.repository.default_branch" in conditions

    def test_what_writes_runs_no_code_of_a_lane(self, job: dict[str, Any]) -> None:
        if "permissions" in job:
            commands = [step["run"] for step in steps_of(job) if "run" in step]
            assert not [command for command in commands if " -- --profile " in command]

    def test_records_are_uploaded_whatever_happened(self, job: dict[str, Any]) -> None:
        steps = list(steps_of(job))
        lanes = [step for step in steps if " -- --profile " in step.get("run", "")]
        uploads = [step for step in steps if "actions/upload-artifact@" in step.get("uses", "")]
        assert len(uploads) >= len(lanes)
        assert all(step["if"] == "${{ always() }}" for step in uploads)

    def test_each_command_is_a_session(self, job: dict[str, Any]) -> None:
        sessions = set(re.findall(r"^- (\w+)|^\* (\w+)", listed(), re.MULTILINE))
        names = {name for pair in sessions for name in pair if name}
        names |= {"$LANE", "$env:LANE"}
        lanes = [each["lane"] for each in job.get("strategy", {}).get("matrix", {}).get("include", [])]
        lanes += job.get("strategy", {}).get("matrix", {}).get("lane", [])
        assert set(lanes) <= names
        for step in steps_of(job):
            command = step.get("run")
            if command is not None and command not in PLUMBING:
                found = SESSION.fullmatch(command)
                assert found, command
                assert found["session"] in names, command


def listed() -> str:
    return run_tool(sys.executable, "-m", "nox", "--noxfile", str(ROOT / "noxfile.py"), "--list").stdout
