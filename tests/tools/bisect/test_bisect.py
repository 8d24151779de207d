"""The bisect: the search over answers, hunting with a fake runner, resuming, its errors, and what it tells."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from conformance.matrix import Matrix, load_matrix
from conformance.model.verdict import Verdict
from tests.reports import factory
from tools.bisect import __main__ as command_line
from tools.bisect import overlay as overlays
from tools.bisect import releases as index
from tools.bisect import trial
from tools.bisect.answer import Answer
from tools.bisect.errors import BisectError, TroubleError
from tools.bisect.hunt import Finding, hunt
from tools.bisect.question import Question
from tools.bisect.search import bracket, next_release, same_goodness
from tools.bisect.state import State
from tools.bisect.telling import comparison, headline, reasons

CELL = "zero/train[stage=2,dtype=fp32,world=2,accumulation=2,clipping=true]"
P, F, C, T, U = Verdict.PASS, Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.UNSUPPORTED


def question(good: str = "1", bad: str = "9", **changes: object) -> Question:
    fields: dict[str, object] = {
        "cell": CELL,
        "lane": "linux_gloo",
        "transport": None,
        "stack": "pinned",
        "integration": "reference",
        "package": "deepspeed",
        "good": good,
        "bad": bad,
        "any_change": False,
        "sources": "abc",
    }
    return Question.model_validate(fields | changes)


class Runner:
    """Stands in for installing and running: what each release comes to, and what was tried."""

    def __init__(self, verdicts: Mapping[str, Verdict | list[Verdict] | None]) -> None:
        self.verdicts = verdicts
        self.tried: list[str] = []

    def __call__(self, release: str) -> Answer:
        told = self.verdicts[release]
        verdict = told[self.tried.count(release)] if isinstance(told, list) else told
        self.tried.append(release)
        return Answer(release=release, verdict=verdict, reason="" if verdict is P else f"why {release}")


def hunted(
    verdicts: Mapping[str, Verdict | list[Verdict] | None], folder: Path, *, repeats: int = 1, **asked: object
) -> tuple[Finding, Runner]:
    runner = Runner(verdicts)
    state = State(folder / "state.json", question(**asked), fresh=False)  # type: ignore[arg-type]
    return hunt(list(verdicts), state, runner, repeats=repeats, say=lambda _: None), runner


def row(text: str) -> dict[str, Verdict | list[Verdict] | None]:
    """`PPF-F` as releases 1 to 5; `-` cannot be tried."""
    letters = {"P": P, "F": F, "C": C, "T": T, "U": U, "-": None}
    return {str(place): letters[letter] for place, letter in enumerate(text, start=1)}


class TestSearch:
    @given(st.integers(2, 60), st.data())
    def test_it_finds_the_change_in_logarithmic_time(self, count: int, data: st.DataObject) -> None:
        first = data.draw(st.integers(1, count - 1))
        unusable = data.draw(st.sets(st.integers(1, max(1, count - 2)), max_size=3)) - {0, count - 1}
        releases = [f"0.{place}" for place in range(count)]
        truth = {
            release: Answer(release=release, verdict=None if place in unusable else F if place >= first else P)
            for place, release in enumerate(releases)
        }
        answers = {release: truth[release] for release in (releases[0], releases[-1])}
        while (release := next_release(releases, bracket(releases, answers, same_goodness))) is not None:
            assert release not in answers
            answers[release] = truth[release]
        found = bracket(releases, answers, same_goodness)
        usable = [release for release in releases if truth[release].usable]
        bad = [release for release in usable if truth[release].verdict is F]
        assert found.first.release == bad[0]
        assert found.last.release == usable[usable.index(bad[0]) - 1]
        low, high = releases.index(found.last.release), releases.index(found.first.release)
        assert found.skipped == tuple(releases[low + 1 : high])
        assert len(answers) <= 2 + count.bit_length() + 2 * len(unusable)

    def test_the_middle_goes_first(self) -> None:
        answers = {"1": Answer(release="1", verdict=P), "5": Answer(release="5", verdict=F)}
        assert next_release(list("12345"), bracket(list("12345"), answers, same_goodness)) == "3"


class TestHunt:
    def test_a_release_that_broke_it(self, tmp_path: Path) -> None:
        finding, runner = hunted(row("PPPFFFFFF"), tmp_path)
        assert (finding.last.release, finding.first.release) == ("3", "4")
        assert finding.first.reason == "why 4"
        assert runner.tried == ["1", "9", "5", "3", "4"]

    def test_a_release_that_fixed_it(self, tmp_path: Path) -> None:
        finding, _ = hunted(row("FFFPPP"), tmp_path, good="6", bad="1")
        assert (finding.last.release, finding.first.release) == ("3", "4")
        assert (finding.last.verdict, finding.first.verdict) == (F, P)

    def test_a_refusal_as_the_contract_says_is_good(self, tmp_path: Path) -> None:
        finding, _ = hunted(row("UPFFF"), tmp_path, bad="5")
        assert finding.first.release == "3"

    def test_what_cannot_be_tried_is_skipped_and_told(self, tmp_path: Path) -> None:
        finding, _ = hunted(row("PP--FFFFF"), tmp_path)
        assert (finding.last.release, finding.skipped, finding.first.release) == ("2", ("3", "4"), "5")
        assert headline(question(), finding).endswith(
            "PASS → FAIL with one of deepspeed 3, 4, 5; those before the last cannot be tried"
        )

    def test_from_one_failure_to_another(self, tmp_path: Path) -> None:
        finding, _ = hunted(row("FFFCC"), tmp_path, bad="5", any_change=True)
        assert (finding.last.release, finding.first.verdict) == ("3", C)

    def test_the_two_last_releases_run_again(self, tmp_path: Path) -> None:
        finding, runner = hunted(row("PPPFFFFFF"), tmp_path, repeats=3)
        assert (runner.tried.count("3"), runner.tried.count("4"), runner.tried.count("5")) == (3, 3, 1)
        assert (finding.last.times, finding.first.times) == (3, 3)

    def test_a_flaky_cell_is_told_and_nothing_is_found(self, tmp_path: Path) -> None:
        verdicts = row("PPPFF") | {"4": [F, P]}
        with pytest.raises(TroubleError, match=r"flaky with deepspeed 4: FAIL: why 4; then PASS$"):
            hunted(verdicts, tmp_path, repeats=2, bad="5")

    @pytest.mark.parametrize(
        ("verdicts", "asked", "message"),
        [
            ("FFF", {"bad": "3"}, r"--good: deepspeed 1 comes to FAIL: why 1; expected PASS or UNSUPPORTED"),
            ("PPP", {"bad": "3"}, r"--bad: deepspeed 3 comes to PASS; expected a failure"),
            ("FPP", {"bad": "3"}, r"--good: deepspeed 1 comes to FAIL: why 1, and --bad 3 to PASS; exchange the two"),
            (
                "FFF",
                {"bad": "3", "any_change": True},
                r"deepspeed 1 and 3 both come to FAIL: why 1; expected",
            ),
        ],
    )
    def test_ends_that_are_not_as_said(
        self, tmp_path: Path, verdicts: str, asked: dict[str, object], message: str
    ) -> None:
        with pytest.raises(BisectError, match=message):
            hunted(row(verdicts), tmp_path, **asked)

    def test_an_end_that_cannot_be_tried(self, tmp_path: Path) -> None:
        with pytest.raises(TroubleError, match=r"--bad: deepspeed 3 cannot be tried: why 3; choose another"):
            hunted(row("PF-"), tmp_path, bad="3")


class TestResuming:
    def test_an_interrupted_one_goes_on(self, tmp_path: Path) -> None:
        verdicts = row("PPPFFFFFF")

        class Interrupted(Runner):
            def __call__(self, release: str) -> Answer:
                if len(self.tried) == 3:
                    raise KeyboardInterrupt
                return super().__call__(release)

        first = Interrupted(verdicts)
        state = State(tmp_path / "state.json", question(), fresh=False)
        with pytest.raises(KeyboardInterrupt):
            hunt(list(verdicts), state, first, repeats=1, say=print)
        finding, second = hunted(verdicts, tmp_path)
        assert finding.first.release == "4"
        assert first.tried == ["1", "9", "5"]
        assert second.tried == ["3", "4"]

    def test_answers_to_another_question_are_not_taken_over(self, tmp_path: Path) -> None:
        path = tmp_path / "state.json"
        State(path, question(), fresh=False).add(Answer(release="1", verdict=P))
        assert State(path, question(), fresh=False).answers
        assert not State(path, question(sources="other"), fresh=False).answers
        assert not State(path, question(), fresh=True).answers

    def test_a_file_that_holds_something_else_is_told(self, tmp_path: Path) -> None:
        path = tmp_path / "state.json"
        path.write_text('{"question": 1}', encoding="utf-8")
        with pytest.raises(BisectError, match=r"state\.json: holds no state of a bisect .*--fresh"):
            State(path, question(), fresh=False)


def pip(stdout: str = "", stderr: str = "", code: int = 0) -> Callable[..., subprocess.CompletedProcess[str]]:
    return lambda command, **_: subprocess.CompletedProcess(command, code, stdout, stderr)


class TestReleases:
    def test_what_the_index_has_in_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        said = "deepspeed (0.19.8)\nAvailable versions: 0.19.8, 0.9.5, 0.10.0, 2.13.0+cpu, odd\n  INSTALLED: 0.19.8\n"
        monkeypatch.setattr(subprocess, "run", pip(said))
        assert index.releases_of("deepspeed") == ["0.9.5", "0.10.0", "0.19.8"]

    def test_without_a_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        said = "WARNING: Retrying (Retry(total=0)) after connection broken by X\nERROR: No matching distribution\n"
        monkeypatch.setattr(subprocess, "run", pip(stderr=said, code=1))
        with pytest.raises(TroubleError, match=r"index cannot be reached for deepspeed: .*connection broken"):
            index.releases_of("deepspeed")

    def test_a_package_that_nobody_knows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(subprocess, "run", pip(stderr="ERROR: No matching distribution found for deepsped", code=1))
        with pytest.raises(BisectError, match=r"--package: found 'deepsped', which the index does not know: ERROR: No"):
            index.releases_of("deepsped")

    def test_from_one_end_to_the_other_whichever_is_older(self) -> None:
        every = ["0.16.0", "0.17.0", "0.18.0", "0.19.0"]
        assert index.between(every, "0.16.0", "0.18.0", "deepspeed") == every[:3]
        assert index.between(every, "0.19.0", "0.17.0", "deepspeed") == every[1:]

    @pytest.mark.parametrize(
        ("good", "bad", "message"),
        [
            (
                "0.16.5",
                "0.18.0",
                r"--good: found '0\.16\.5', expected a release of deepspeed, such as 0\.19\.0, 0",
            ),
            ("0.16.0", "x", r"--bad: found 'x', expected a release of deepspeed"),
            ("0.17.0", "0.17.0", r"found 0\.17\.0 twice, expected two releases"),
            ("0.18.0", "0.17.0", r"no release of deepspeed lies between them.*what changed came with 0\.18\.0"),
        ],
    )
    def test_ends_that_enclose_nothing(self, good: str, bad: str, message: str) -> None:
        with pytest.raises(BisectError, match=message):
            index.between(["0.16.0", "0.17.0", "0.18.0", "0.19.0"], good, bad, "deepspeed")


class TestTrying:
    def test_a_release_that_does_not_install_is_no_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []
        monkeypatch.setattr(trial, "releases_of", lambda package, index_url: asked.append(package) or [])
        monkeypatch.setattr(overlays.subprocess, "run", pip(stderr="WARNING: x\nerror: no setup.py\n", code=1))
        answer = trial.attempt(question(), "0.3.1")
        assert (answer.verdict, answer.reason) == (None, "does not install: error: no setup.py")
        assert asked == ["deepspeed"], "whether the index is still there must be asked"

    def test_no_network_midway_is_trouble_and_no_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broken = "WARNING: Retrying (Retry(total=0)) after connection broken\nERROR: No matching distribution found"
        monkeypatch.setattr(subprocess, "run", pip(stderr=broken, code=1))
        with pytest.raises(TroubleError, match="cannot be reached"):
            trial.attempt(question(), "0.18.0")

    def test_the_overlay_is_first_on_the_path_and_gone_afterwards(self, monkeypatch: pytest.MonkeyPatch) -> None:
        commands: list[list[str]] = []

        def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
            commands.append(command)
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(subprocess, "run", run)
        with overlays.overlay("pytorch-lightning", "2.5.0", {"PYTHONPATH": "mine"}) as variables:
            folder, _, rest = variables["PYTHONPATH"].partition(os.pathsep)
            assert rest == "mine"
            assert Path(folder).is_dir()
        assert not Path(folder).exists()
        install, imported = commands
        assert {"--no-deps", "--target", folder, "pytorch-lightning==2.5.0"} <= set(install)
        assert imported[-1] == "import pytorch_lightning"

    def test_what_a_record_says(self) -> None:
        ran = factory.provenance(packages={"deepspeed": "0.18.0"})
        failed = factory.record(CELL, F, reason="worse", provenance=ran)
        assert trial.answer_of(failed, question(), "0.18.0") == Answer(release="0.18.0", verdict=F, reason="worse")
        with pytest.raises(TroubleError, match=r"ran with deepspeed 0\.18\.0, expected 0\.18\.1"):
            trial.answer_of(failed, question(), "0.18.1")
        for verdict in (Verdict.NOT_RUN, Verdict.ERROR):
            record = factory.record(CELL, verdict, reason="needs 2 GPUs", provenance=ran)
            with pytest.raises(TroubleError, match=f"{verdict}: needs 2 GPUs"):
                trial.answer_of(record, question(), "0.18.0")


class TestTelling:
    def test_the_address_of_the_comparison(self) -> None:
        assert comparison("deepspeed", "0.18.1", "0.18.2") == (
            "https://github.com/deepspeedai/DeepSpeed/compare/v0.18.1...v0.18.2"
        )
        assert comparison("pytorch-lightning", "2.5.0", "2.5.1") == (
            "https://github.com/Lightning-AI/pytorch-lightning/compare/2.5.0...2.5.1"
        )
        assert comparison("rich", "1", "2") is None

    def test_both_reasons_side_by_side(self) -> None:
        finding = Finding(Answer(release="1", verdict=P), Answer(release="2", verdict=F, reason="[off] by 3"), (), ())
        shown = io.StringIO()
        Console(file=shown, width=80).print(reasons(finding))
        line = next(line for line in shown.getvalue().splitlines() if "as expected" in line)
        assert "[off] by 3" in line


class TestReal:
    def test_a_release_from_the_index_is_what_python_finds(self) -> None:
        try:
            releases = index.releases_of("hjson")
        except TroubleError as error:
            pytest.skip(f"no package index here: {error}")
        assert releases.index("3.0.2") < releases.index("3.1.0")
        program = "import importlib.metadata, hjson; print(importlib.metadata.version('hjson'), hjson.__file__)"
        with overlays.overlay("hjson", "3.0.2", os.environ) as variables:
            shown = subprocess.check_output([sys.executable, "-c", program], env=variables, encoding="utf-8")
        version, file = shown.split(maxsplit=1)
        assert version == "3.0.2"
        assert variables["PYTHONPATH"].split(os.pathsep)[0] in file


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@pytest.fixture(autouse=True)
def _read_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.cls is TestCommandLine:
        monkeypatch.setattr(command_line, "load_matrix", lambda: request.getfixturevalue("matrix"))


class TestCommandLine:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([CELL, "--lane", "mars"], "--lane: found 'mars', expected one of linux_gloo"),
            ([CELL, "--stack", "x"], "--stack: found 'x', expected one of"),
            (["zero/train*", "--lane", "linux_gloo"], "CELL: 'zero/train*' matches"),
            (["nothing", "--lane", "linux_gloo"], "CELL: 'nothing' matches 0 cells of lane linux_gloo; expected one"),
        ],
    )
    def test_wrong_words_end_with_2(self, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
        assert command_line.main([*words, "--good", "0.16.9", "--bad", "0.17.6"]) == 2
        assert message in capsys.readouterr().err

    def test_a_whole_one_with_a_fake_index_and_runner(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        verdicts = row("PPPFF")
        runner = Runner(verdicts)
        monkeypatch.setattr(command_line, "releases_of", lambda package, index_url: list(verdicts))
        monkeypatch.setattr(command_line, "attempt", lambda question, release, index_url: runner(release))
        words = [CELL, "--lane", "linux_gloo", "--good", "1", "--bad", "5", "--state", str(tmp_path / "s.json")]
        assert command_line.main(words) == 0
        said = capsys.readouterr().out
        assert f"{CELL} on linux_gloo: PASS → FAIL with deepspeed 4" in said
        assert "https://github.com/deepspeedai/DeepSpeed/compare/v3...v4" in said
        runner.tried.clear()
        assert command_line.main(words) == 0, "what is known already needs no run"
        assert runner.tried == []

    def test_no_network_ends_with_3(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        def offline(package: str, index_url: str | None) -> list[str]:
            raise TroubleError("the package index cannot be reached")

        monkeypatch.setattr(command_line, "releases_of", offline)
        assert command_line.main([CELL, "--lane", "linux_gloo", "--good", "1", "--bad", "5"]) == 3
        assert "cannot be reached" in capsys.readouterr().err
