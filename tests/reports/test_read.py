"""Reading: whatever the files hold, what can be read is, and the rest is named."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from conformance.model.record import to_line
from conformance.model.run_header import to_text
from reports.read import PROBLEMS_A_FILE, SourceError, read_record_file, read_sources
from tests.reports import factory

GOOD = to_line(factory.record())


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("not json", "not JSON: "),
        ("[1, 2]", "found list, expected a record"),
        ("17", "found int, expected a record"),
        ('{"event": "start"}', "not a record: cell: Field required"),
        (GOOD.replace('"schema_version":1', '"schema_version":2'), "schema_version: found 2, expected 1"),
        (GOOD.replace('"PASS"', '"GREEN"'), "not a record: verdict: "),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(tmp_path: Path, line: str, says: str) -> None:
    file = write(tmp_path / "mixed – größe.jsonl", f"{GOOD}\n{line}\n\n{GOOD}\n")
    records, problems = read_record_file(file)
    assert len(records) == 2
    (problem,) = problems
    assert problem.where == f"{file}, line 2"
    assert problem.what.startswith(says)


def test_bytes_that_are_not_utf_8_cost_their_line(tmp_path: Path) -> None:
    file = write(
        tmp_path / "r.jsonl", GOOD.encode() + b"\n" + GOOD.encode().replace(b"reference", b"r\xe9f", 1) + b"\n"
    )
    records, problems = read_record_file(file)
    assert len(records) == 1
    assert [problem.where for problem in problems] == [f"{file}, line 2"]


def test_windows_line_ends_are_fine(tmp_path: Path) -> None:
    records, problems = read_record_file(write(tmp_path / "r.jsonl", f"{GOOD}\r\n{GOOD}\r\n"))
    assert (len(records), problems) == (2, [])


def test_a_cut_last_line_is_said_to_be_cut(tmp_path: Path) -> None:
    records, problems = read_record_file(write(tmp_path / "r.jsonl", f"{GOOD}\n{GOOD[:200]}"))
    assert len(records) == 1
    assert "cut off" in problems[0].what


def test_a_whole_last_line_without_its_end_is_read(tmp_path: Path) -> None:
    records, problems = read_record_file(write(tmp_path / "r.jsonl", f"{GOOD}\n{GOOD}"))
    assert (len(records), problems) == (2, [])


def test_a_foreign_file_does_not_flood_the_report(tmp_path: Path) -> None:
    records, problems = read_record_file(write(tmp_path / "r.jsonl", "x\n" * 1000))
    assert records == []
    assert len(problems) == PROBLEMS_A_FILE + 1
    assert problems[-1].what == f"{1000 - PROBLEMS_A_FILE} more lines that are no records"


def test_packed_records_are_read_and_broken_ones_named(tmp_path: Path) -> None:
    packed = gzip.compress(GOOD.encode("utf-8") + b"\n")
    write(tmp_path / "good" / "records.jsonl.gz", packed)
    cut = write(tmp_path / "cut" / "records.jsonl.gz", packed[:-20])
    foreign = write(tmp_path / "foreign" / "records.jsonl.gz", "no gzip")
    damaged = write(tmp_path / "damaged" / "records.jsonl.gz", packed[:12] + b"\xff" * 30 + packed[42:])
    sources = read_sources([tmp_path])
    assert len(sources.records) == 1
    assert {Path(problem.where) for problem in sources.problems} == {cut, foreign, damaged}
    assert all(problem.what.startswith("cannot be read: ") for problem in sources.problems)


def test_a_folder_is_searched_in_depth_with_its_headers(tmp_path: Path) -> None:
    write(tmp_path / "linux" / "records.jsonl", GOOD + "\n")
    write(tmp_path / "linux" / "run.json", to_text(factory.header([factory.record().cell])))
    write(tmp_path / "windows" / "shard 2" / "records.jsonl", GOOD + "\n")
    write(tmp_path / "windows" / "run.json", "{}")
    sources = read_sources([tmp_path])
    assert len(sources.records) == 2
    assert len(sources.headers) == 1
    assert [Path(problem.where) for problem in sources.problems] == [tmp_path / "windows" / "run.json"]


def test_the_header_beside_a_named_file_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "records.jsonl", GOOD + "\n")
    write(tmp_path / "run.json", to_text(factory.header()))
    assert len(read_sources([file]).headers) == 1


def test_a_run_of_several_integrations_has_a_header_for_each(tmp_path: Path) -> None:
    file = write(tmp_path / "records.jsonl", GOOD + "\n")
    for name in ("reference", "lightning"):
        write(tmp_path / f"run.{name}.json", to_text(factory.header(integration=name)))
    for source in (file, tmp_path):
        assert {header.integration for header in read_sources([source]).headers} == {"reference", "lightning"}


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    file = write(tmp_path / "records.jsonl", GOOD + "\n")
    assert len(read_sources([file, tmp_path, str(tmp_path / "*.jsonl")]).records) == 1


def test_a_glob_is_expanded_here_since_windows_shells_do_not(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"run {name}" / "records.jsonl", GOOD + "\n")
    assert len(read_sources([str(tmp_path / "run *")]).records) == 2
    assert len(read_sources([str(tmp_path / "**" / "*.jsonl")]).records) == 2


def test_a_path_with_brackets_that_exists_is_no_glob(tmp_path: Path) -> None:
    file = write(tmp_path / "run[1]" / "records.jsonl", GOOD + "\n")
    assert len(read_sources([file]).records) == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [("nowhere", "no such file or folder"), ("no*", "no file or folder matches"), (".", "no record file")],
)
def test_a_path_that_gives_nothing_is_an_error(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(SourceError) as error:
        read_sources([tmp_path / name])
    assert says in str(error.value)
    assert str(tmp_path) in str(error.value)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="every file is readable here")
def test_an_unreadable_file_is_a_problem_and_no_end(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", GOOD)
    file.chmod(0)
    write(tmp_path / "b.jsonl", GOOD + "\n")
    sources = read_sources([tmp_path])
    assert len(sources.records) == 1
    assert "cannot be read" in sources.problems[0].what
