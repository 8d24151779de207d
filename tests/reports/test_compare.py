"""What changed, from the values and from the command line."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.model.record import Record, to_line
from conformance.model.run_header import to_text
from conformance.model.verdict import Verdict, worse
from reports.compare import Change, compare
from reports.history import of_column, past_of
from reports.merge import merge
from reports.trend import trend
from tests.reports import factory

ROOT = Path(__file__).parents[2]
CELL = "zero/train[stage=2,dtype=bf16]"


def changed(before: Verdict | None, after: Verdict | None) -> Change | None:
    first, second = (
        merge([factory.record("launch/env")] + ([factory.record(CELL, verdict)] if verdict else []), [factory.header()])
        for verdict in (before, after)
    )
    found = compare(first, second)
    assert len(found) <= 1
    return found[0].change if found else None


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (Verdict.PASS, Verdict.PASS, None),
        (Verdict.PASS, Verdict.FAIL, Change.WORSE),
        (Verdict.PASS, Verdict.XFAIL, Change.WORSE),
        (Verdict.PASS, Verdict.NO_DATA, Change.WORSE),
        (Verdict.UNSUPPORTED, Verdict.ERROR, Change.WORSE),
        (Verdict.UNSUPPORTED, Verdict.PASS, Change.OTHER),
        (Verdict.XFAIL, Verdict.XPASS, Change.OTHER),
        (Verdict.XFAIL, Verdict.PASS, Change.BETTER),
        (Verdict.FAIL, Verdict.PASS, Change.BETTER),
        (Verdict.FAIL, Verdict.TIMEOUT, Change.OTHER),
        (Verdict.FAIL, Verdict.XFAIL, Change.OTHER),
        (Verdict.NOT_RUN, Verdict.CRASH, Change.TESTED),
        (Verdict.NO_DATA, Verdict.PASS, Change.TESTED),
        (Verdict.PASS, Verdict.NOT_RUN, Change.LOST),
        (Verdict.FAIL, Verdict.NO_DATA, Change.LOST),
        (Verdict.NOT_RUN, Verdict.NO_DATA, Change.OTHER),
        (None, Verdict.FAIL, Change.NEW),
        (Verdict.PASS, None, Change.GONE),
    ],
)
def test_a_change_has_its_name(before: Verdict | None, after: Verdict | None, change: Change | None) -> None:
    assert changed(before, after) is change


@pytest.mark.parametrize(("before", "after"), list(itertools.product(Verdict, repeat=2)))
def test_worse_is_one_definition(before: Verdict, after: Verdict) -> None:
    good = (Verdict.PASS, Verdict.UNSUPPORTED)
    expected = before in good and after not in (*good, Verdict.NOT_RUN)
    assert worse(before, after) is expected
    assert (changed(before, after) is Change.WORSE) is expected


def test_lanes_meet_across_commits_and_stay_apart_from_each_other() -> None:
    other = factory.provenance(git_commit="0" * 40)
    before = merge([factory.record(), factory.record(lane="linux_mpi")])
    after = merge(
        [factory.record(verdict=Verdict.FAIL, provenance=other), factory.record(lane="linux_mpi", provenance=other)]
    )
    (difference,) = compare(before, after)
    assert difference.column == "linux_gloo · gloo · stable · reference"
    assert difference.regression


def test_two_single_columns_meet_whatever_they_are_called() -> None:
    (difference,) = compare(merge([factory.record()]), merge([factory.record(stack="next", verdict=Verdict.FAIL)]))
    assert difference.column == "linux_gloo · gloo · stable · reference → linux_gloo · gloo · next · reference"


def test_the_past_of_a_column_is_its_own_and_older() -> None:
    old = past_of(merge(factory.lane(started=factory.STARTED.replace(day=1, month=2), seed=2)))
    wine = past_of(merge(factory.lane("windows_gloo", started=factory.STARTED.replace(month=2))))
    future = past_of(merge(factory.lane(started=factory.STARTED.replace(month=4), seed=3)))
    (column,) = merge(factory.lane()).columns
    assert list(of_column(column, [*future, *wine, *old])) == old
    assert old[0].verdicts[factory.cell_ids()[0]] is Verdict.PASS


def test_a_trend_counts_the_cells_that_all_runs_have() -> None:
    today = {CELL: Verdict.PASS, "launch/env": Verdict.PASS, "launch/new": Verdict.FAIL}
    nothing = past_of(merge([], [factory.header([CELL])]))
    assert trend(today, nothing) is None
    failing = past_of(merge([factory.record(CELL, Verdict.FAIL), factory.record("launch/env")]))
    course = trend(today, [*nothing, *failing])
    assert course is not None
    assert [point.passed for point in course.points] == [1, 2]
    assert [point.unexpected for point in course.points] == [True, False]
    assert course.points[0].y > course.points[1].y
    assert course.words == "2 pass now, 1 before, of 2 cells that all 2 runs have"
    assert trend({"launch/other": Verdict.PASS}, failing) is None


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reports", *arguments],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def write(folder: Path, records: list[Record]) -> str:
    folder.mkdir()
    (folder / "records.jsonl").write_text("".join(to_line(record) + "\n" for record in records), encoding="utf-8")
    (folder / "run.json").write_text(to_text(factory.header([record.cell for record in records])), encoding="utf-8")
    return str(folder)


def test_diff_tells_a_regression_and_exits_1(tmp_path: Path) -> None:
    before = write(tmp_path / "before run", [factory.record(CELL), factory.record("launch/env", Verdict.FAIL)])
    after = write(
        tmp_path / "after run", [factory.record(CELL, Verdict.FAIL, reason="lost\nit"), factory.record("launch/env")]
    )
    result = run("diff", before, after)
    assert result.returncode == 1
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        f"worse: {CELL} on linux_gloo · gloo · stable · reference: PASS → FAIL: lost it",
        "better: launch/env on linux_gloo · gloo · stable · reference: FAIL → PASS",
        "2 changed, 1 for the worse",
    ]


def test_a_failure_that_became_known_is_a_regression_too(tmp_path: Path) -> None:
    before = write(tmp_path / "before", [factory.record(CELL)])
    after = write(tmp_path / "after", [factory.record(CELL, Verdict.XFAIL)])
    assert run("diff", before, after).returncode == 1


def test_diff_of_the_same_exits_0(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", [factory.record(CELL)])
    result = run("diff", folder, folder)
    assert (result.returncode, result.stdout) == (0, "nothing changed\n")


def test_build_writes_every_format_and_names_what_it_left_out(tmp_path: Path) -> None:
    folder = Path(write(tmp_path / "run", [factory.record(CELL)]))
    (folder / "foreign.jsonl").write_text("hello\n", encoding="utf-8")
    old = write(tmp_path / "old", [factory.record(CELL, started="2026-02-01T00:00:00+00:00")])
    into = tmp_path / "größe out"
    result = run("build", str(tmp_path / "ru*"), "--into", str(into), "--history", old)
    assert result.returncode == 0, result.stderr
    assert "foreign.jsonl, line 1: not JSON" in result.stderr
    assert {path.name for path in into.iterdir()} == {
        "index.html",
        "data",
        "report.md",
        "junit.xml",
        "ctrf.json",
        "badges",
    }
    assert sorted(result.stdout.splitlines()) == sorted(str(path) for path in into.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "required"),
        (("build", "nowhere"), "--into"),
        (("build", "nowhere", "--into", "x"), "nowhere: no such file or folder"),
        (("diff", "nowhere"), "required"),
        (("diff", "nowhere", "there"), "nowhere: no such file or folder"),
        (("post",), "invalid choice"),
        (("publish",), "required"),
    ],
)
def test_wrong_usage_exits_2_in_words(arguments: tuple[str, ...], says: str) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr


def test_files_without_a_record_are_an_error_and_no_empty_report(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("hello\n", encoding="utf-8")
    result = run("build", str(tmp_path), "--into", str(tmp_path / "out"))
    assert result.returncode == 2
    assert "not one record could be read" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", [factory.record(CELL)])
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = run("build", folder, "--into", str(tmp_path / "file" / "sub"))
    assert result.returncode == 2
    assert "choose a folder that you may write to" in result.stderr
    assert "Traceback" not in result.stderr
