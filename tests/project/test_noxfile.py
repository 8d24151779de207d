"""The noxfile: what it takes from the command line, how it lists itself, and how it hands exit codes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import nox
import nox.registry
import pytest

ROOT = Path(__file__).resolve().parents[2]
LANES = sorted(path.stem for path in (ROOT / "matrices" / "lanes").glob("*.toml"))


@pytest.fixture(scope="module")
def noxfile() -> Iterator[ModuleType]:
    """The noxfile as a module; the sessions that it registers are forgotten afterwards."""
    import noxfile

    yield noxfile
    nox.registry._REGISTRY.clear()


def run_nox(folder: Path, *words: str, noxfile: Path = ROOT / "noxfile.py") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nox", "--noxfile", str(noxfile), "--envdir", str(folder / "envs"), *words]
    return subprocess.run(command, capture_output=True, encoding="utf-8", cwd=folder, timeout=120)


class TestOptions:
    def test_what_is_not_about_the_environment_is_left_in_order(self, noxfile: ModuleType) -> None:
        words = ["-k", "stage or dtype", "--mpi", "openmpi", "--profile", "smoke", "--build-ops", "--cell", "zero/*"]
        options = noxfile.split_options("linux_mpi", words, {}, "linux")
        assert options.rest == ("-k", "stage or dtype", "--profile", "smoke", "--cell", "zero/*")
        assert (options.mpi_groups, options.build_ops, options.stack) == (("openmpi",), True, "pinned")

    def test_integrations_are_for_the_harness_and_bring_their_groups(self, noxfile: ModuleType) -> None:
        words = ["--integration", "transformers", "--profile", "smoke", "--integration=accelerate"]
        options = noxfile.split_options("linux_gloo", [*words, "--integration", "reference"], {}, "linux")
        assert options.rest == (*words, "--integration", "reference")
        assert options.integration_groups == ("accelerate", "transformers")
        assert noxfile.split_options("linux_gloo", ["--integration"], {}, "linux").integration_groups == ()

    def test_a_lane_takes_several_stacks_and_nothing_else_does(
        self, noxfile: ModuleType, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["--stack", "oldest", "--profile", "smoke", "--stack", "pinned", "--stack", "oldest"]
        assert noxfile.split_options("linux_gloo", words, {}, "linux").stacks == ("oldest", "pinned")
        with pytest.raises(SystemExit) as ended:
            noxfile.split_options("tests", words, {}, "linux")
        assert ended.value.code == 2
        assert "--stack: found oldest, pinned, expected one: only lanes run with several" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "environ", "system", "expected"),
        [
            ([], {}, "linux", "mpich"),
            ([], {}, "win32", "impi"),
            ([], {"CONFORMANCE_MPI": "openmpi"}, "linux", "openmpi"),
            (["--mpi", "impi"], {"CONFORMANCE_MPI": "openmpi"}, "linux", "impi"),
            (["--mpi", "system"], {}, "win32", None),
            (["--mpi", "msmpi"], {}, "win32", None),
            (["--mpi", sys.executable], {}, "linux", None),
        ],
    )
    def test_the_mpi(
        self, noxfile: ModuleType, words: list[str], environ: dict[str, str], system: str, expected: str | None
    ) -> None:
        groups = noxfile.split_options("linux_mpi", words, environ, system).mpi_groups
        assert groups == (() if expected is None else (expected,))

    @pytest.mark.parametrize(
        ("words", "environ", "message"),
        [
            (
                ["--mpi", "lam"],
                {},
                "--mpi: found 'lam', expected one of impi, mpich, openmpi, msmpi, system, or the path",
            ),
            (
                [],
                {"CONFORMANCE_MPI": "lam"},
                "CONFORMANCE_MPI: found 'lam', expected one of impi, mpich,",
            ),
            (["--torch-index"], {}, "argument --torch-index: expected one argument"),
        ],
    )
    def test_a_wrong_one_ends_with_2(
        self,
        noxfile: ModuleType,
        capsys: pytest.CaptureFixture[str],
        words: list[str],
        environ: dict[str, str],
        message: str,
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            noxfile.split_options("linux_mpi", words, environ, "linux")
        assert ended.value.code == 2
        assert message in capsys.readouterr().err

    def test_the_torch_index(self, noxfile: ModuleType) -> None:
        def chosen(words: list[str], environ: dict[str, str]) -> object:
            return noxfile.split_options("linux_nccl", words, environ, "linux").torch_index

        assert chosen([], {}) is None
        assert chosen([], {"CONFORMANCE_TORCH_INDEX": "https://a"}) == "https://a"
        assert chosen(["--torch-index", "https://b"], {"CONFORMANCE_TORCH_INDEX": "https://a"}) == "https://b"

    def test_a_lane_of_another_system_is_refused_with_what_to_do(self, noxfile: ModuleType) -> None:
        assert noxfile.wrong_system("linux_gloo", "linux") is None
        assert noxfile.wrong_system("windows_mpi", "win32") is None
        under_wine = noxfile.wrong_system("windows_mpi", "linux")
        assert under_wine.endswith("or under Wine: nox -s wine -- windows_mpi --python FOLDER")
        assert noxfile.wrong_system("linux_gloo", "darwin").endswith("found Darwin; run it on a Linux machine")

    def test_the_subject_of_a_benchmark(self, noxfile: ModuleType) -> None:
        assert noxfile.subject_of(["transport", "--size", "4"], ("ranks", "transport")) == (
            "transport",
            ["--size", "4"],
        )
        assert noxfile.subject_of(["--cells", "4"], ("ranks", "transport")) == ("ranks", ["--cells", "4"])


class TestUpdate:
    def test_options_go_where_they_belong(self, noxfile: ModuleType) -> None:
        words = ["--package", "deepspeed", "--package", "rich", "--write", "--lane", "linux_mpi", "--ranks", "cold"]
        options = noxfile.update_options(words)
        assert (options.packages, options.lane, options.write) == (("deepspeed", "rich"), "linux_mpi", True)
        assert options.rest == ("--ranks", "cold")

    def test_nothing_is_written_unless_asked(self, noxfile: ModuleType) -> None:
        assert not noxfile.update_options([]).write


class TestWine:
    def test_options_go_where_they_belong(self, noxfile: ModuleType) -> None:
        words = ["windows_mpi", "--python", "P Y", "--profile", "smoke", "--wine", "/w", "-k", "zero"]
        options = noxfile.wine_options(words)
        assert options.lane == "windows_mpi"
        assert options.tool == ("--wine", "/w")
        assert options.interpreter == ("--python", "P Y")
        assert options.rest == ("--profile", "smoke", "-k", "zero")

    def test_the_interpreter_may_come_from_a_variable(self, noxfile: ModuleType) -> None:
        assert noxfile.wine_options(["windows_gloo"]).interpreter == ()

    @pytest.mark.parametrize("words", [[], ["linux_gloo"], ["--python", "folder"]])
    def test_without_a_windows_lane_it_ends_with_2(
        self, noxfile: ModuleType, capsys: pytest.CaptureFixture[str], words: list[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            noxfile.wine_options(words)
        assert ended.value.code == 2
        assert "lane" in capsys.readouterr().err

    def test_the_commit_and_whether_files_differ(self, noxfile: ModuleType, tmp_path: Path) -> None:
        def git(*words: str) -> str:
            identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
            command = ["git", "-C", str(tmp_path), *identity, *words]
            return subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout.strip()

        assert noxfile.source_commit(tmp_path) is None
        git("init", "--quiet")
        (tmp_path / "file").write_text("one", encoding="utf-8")
        git("add", "file")
        git("commit", "--quiet", "-m", "One")
        assert noxfile.source_commit(tmp_path) == git("rev-parse", "HEAD")
        (tmp_path / "file").write_text("two", encoding="utf-8")
        assert noxfile.source_commit(tmp_path) == git("rev-parse", "HEAD") + "+"


class TestSessions:
    def test_the_list_reads_as_documentation(self, tmp_path: Path) -> None:
        listed = run_nox(tmp_path, "--list")
        assert listed.returncode == 0, listed.stderr
        lines = [line for line in listed.stdout.splitlines() if line.startswith(("* ", "- "))]
        sessions = {line[2:].partition(" -> ")[0]: line.partition(" -> ")[2] for line in lines}
        assert {*LANES, "tests", "lint", "bench", "report", "docs", "wine"} <= set(sessions)
        assert all(len(text) > 20 for text in sessions.values()), sessions
        default = "windows_gloo" if sys.platform == "win32" else "linux_gloo"
        assert [line for line in lines if line.startswith("* ")] == [f"* {default} -> {sessions[default]}"]

    def test_every_lane_has_its_session(self, noxfile: ModuleType) -> None:
        assert set(LANES) <= set(nox.registry.get())

    def test_one_of_several_stacks_is_unknown(self, tmp_path: Path) -> None:
        lane = "windows_gloo" if sys.platform == "win32" else "linux_gloo"
        ended = run_nox(tmp_path, "-s", lane, "--", "--stack", "pinned", "--stack", "nightly")
        assert ended.returncode == 2
        assert "--stack: found 'nightly', expected one of those in" in ended.stdout + ended.stderr
        assert not (tmp_path / "envs" / "stack-pinned").exists(), "all names are looked at before the first run"

    def test_an_unknown_stack_ends_with_2_and_without_a_traceback(self, tmp_path: Path) -> None:
        ended = run_nox(tmp_path, "-s", "lint", "--", "--stack", "nightly")
        assert ended.returncode == 2
        assert "--stack: found 'nightly', expected one of those in" in ended.stdout + ended.stderr
        assert "Traceback" not in ended.stdout + ended.stderr

    def test_a_lane_of_another_system_ends_with_2_before_anything_is_installed(self, tmp_path: Path) -> None:
        lane = "linux_gloo" if sys.platform == "win32" else "windows_gloo"
        ended = run_nox(tmp_path, "-s", lane)
        assert ended.returncode == 2
        assert f"the lane {lane} needs" in ended.stdout + ended.stderr
        assert not (tmp_path / "envs" / "stack-pinned").exists()


HANDING_ON = """
import sys
sys.path.insert(0, {root!r})
import nox, noxfile
nox.registry._REGISTRY.clear()

@nox.session(venv_backend="none")
def harness(session):
    ended = noxfile.AnyCode()
    session.run(sys.executable, "-c", "import sys; sys.exit(int(sys.argv[1]))", *session.posargs, success_codes=ended)
    noxfile.hand_on(session, ended.code)
"""


@pytest.mark.parametrize(
    ("harness", "handed_on", "said"),
    [
        (0, 0, "was successful"),
        (1, 1, "a FAIL, CRASH, TIMEOUT or XPASS (exit code 1)"),
        (2, 2, "wrong usage or matrix (exit code 2)"),
        (3, 3, "nothing ran, or ERROR (exit code 3)"),
        (77, 3, "what it ran ended with 77 (exit code 3)"),
    ],
)
def test_the_harness_s_exit_code_is_nox_s(tmp_path: Path, harness: int, handed_on: int, said: str) -> None:
    program = tmp_path / "handing_on.py"
    program.write_text(HANDING_ON.format(root=str(ROOT)), encoding="utf-8")
    ended = run_nox(tmp_path, "-s", "harness", "--", str(harness), noxfile=program)
    assert ended.returncode == handed_on, ended.stderr
    assert said in ended.stderr + ended.stdout
    assert "Traceback" not in ended.stderr + ended.stdout
