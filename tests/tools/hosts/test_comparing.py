"""What explains a verdict that differs on an emulated host, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.matrix import load_matrix
from conformance.model.exit_code import ExitCode
from conformance.model.record import Record
from conformance.model.verdict import Verdict
from tests.reports import factory
from tools.hosts import table
from tools.hosts.comparing import Comparison, compare, worst
from tools.hosts.kind import PLAIN, Conditions, Kind
from tools.hosts.running import Outcome

MATRIX = load_matrix()
CELL = "zero/train[stage=0,dtype=fp16,world=2]"
KIND = Kind("some", "some other host", Conditions(cores=1))
REFUSED = "it refused: ValueError: Type fp16 is not supported on your device."


def record(verdict: Verdict, reason: str = "", **capabilities: Any) -> Record:
    host = factory.LINUX.model_copy(update={"capabilities": capabilities})
    return factory.record(CELL, verdict, reason=reason, provenance=factory.provenance(host=host))


def outcome(*records: Record, kind: Kind = KIND, exit_code: int | None = 0, **changes: Any) -> Outcome:
    return Outcome(kind, exit_code, 1.0, {each.cell: each for each in records}, (CELL,), **changes)


def compared(plain: Record, emulated: Record, exit_code: int = 0) -> Comparison:
    return compare(outcome(plain, kind=PLAIN), outcome(emulated, exit_code=exit_code), MATRIX)


def test_the_same_verdict_is_no_difference_whatever_the_capabilities() -> None:
    comparison = compared(record(Verdict.PASS, fp16=True), record(Verdict.PASS, fp16=False))
    assert comparison.differences == () and comparison.explained


@pytest.mark.parametrize(
    ("plain", "emulated"),
    [
        (record(Verdict.PASS, fp16=True), record(Verdict.UNSUPPORTED, REFUSED, fp16=False)),
        (record(Verdict.UNSUPPORTED, REFUSED, fp16=False), record(Verdict.PASS, fp16=True)),
        (record(Verdict.PASS, cores=4), record(Verdict.NOT_RUN, "needs cores >=2 (found 1)", cores=1)),
        (record(Verdict.PASS, shm_bytes=9), record(Verdict.NOT_RUN, "needs 1 GiB of /dev/shm", shm_bytes=1)),
    ],
)
def test_a_capability_that_changed_and_is_named_explains(plain: Record, emulated: Record) -> None:
    (difference,) = compared(plain, emulated).differences
    assert difference.capability is not None and " → " in difference.capability


@pytest.mark.parametrize(
    ("plain", "emulated"),
    [
        pytest.param(
            record(Verdict.PASS, fp16=True), record(Verdict.UNSUPPORTED, REFUSED, fp16=True), id="it did not change"
        ),
        pytest.param(
            record(Verdict.PASS, cores=4), record(Verdict.UNSUPPORTED, REFUSED, cores=1), id="another one is named"
        ),
        pytest.param(record(Verdict.PASS), record(Verdict.UNSUPPORTED, REFUSED), id="none is known"),
        pytest.param(
            record(Verdict.PASS, fp16=True), record(Verdict.XFAIL, REFUSED, fp16=False), id="no known issue names it"
        ),
        pytest.param(
            record(Verdict.PASS, fp16=True), record(Verdict.UNSUPPORTED, "fp160", fp16=False), id="part of a word"
        ),
        *(
            pytest.param(record(Verdict.PASS, fp16=True), record(bad, f"{REFUSED} fp16", fp16=False), id=bad.value)
            for bad in (Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.ERROR, Verdict.XPASS)
        ),
    ],
)
def test_nothing_else_explains(plain: Record, emulated: Record) -> None:
    (difference,) = compared(plain, emulated).differences
    assert difference.capability is None


def test_a_cell_without_a_record_is_a_difference_that_nothing_explains() -> None:
    comparison = compare(outcome(record(Verdict.PASS), kind=PLAIN), outcome(exit_code=3, tail="boom\n"), MATRIX)
    assert [each.emulated for each in comparison.differences] == [None]
    assert comparison.problems == ("it reported no cell; it said last: boom",)
    assert not comparison.explained


@pytest.mark.parametrize(
    ("emulated", "says"),
    [
        (outcome(record(Verdict.PASS), exit_code=3), "its exit code is 3, and its verdicts say 0"),
        (outcome(record(Verdict.PASS), exit_code=None), "ended at its deadline"),
        (outcome(record(Verdict.PASS), left=("python", "python")), "processes outlived it: python"),
        (
            outcome(record(Verdict.PASS, cores=4), kind=Kind("one-core", "", Conditions(cores=1), proof={"cores": 1})),
            "not emulated: cores is 4, expected 1",
        ),
    ],
)
def test_what_is_wrong_with_a_run_itself_is_never_explained(emulated: Outcome, says: str) -> None:
    comparison = compare(outcome(record(Verdict.PASS), kind=PLAIN), emulated, MATRIX)
    assert not comparison.explained
    assert says in comparison.problems[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"git_commit": "2" * 40}, True),
        ({"packages": {"torch": "2.0"}}, True),
        ({"git_commit": None}, False),
        ({"git_commit": None, "packages": {"torch": "2.0"}}, True),
    ],
)
def test_other_sources_are_no_matter_of_the_host(changes: dict[str, Any], said: bool) -> None:
    emulated = factory.record(CELL, provenance=factory.provenance(**changes))
    found = compared(factory.record(CELL), emulated).problems
    assert found == (("the plain run was made at another commit or with other versions",) if said else ())


def test_the_exit_code_is_good_only_if_all_is_explained_and_the_plain_run_was_good() -> None:
    good = compared(record(Verdict.PASS, fp16=True), record(Verdict.UNSUPPORTED, REFUSED, fp16=False))
    bad = compared(record(Verdict.PASS), record(Verdict.FAIL, "it did not"), exit_code=1)
    plain = outcome(record(Verdict.PASS), kind=PLAIN)
    assert worst([good], plain) is ExitCode.AS_EXPECTED
    assert worst([good, bad], plain) is ExitCode.UNEXPECTED
    assert worst([good], outcome(record(Verdict.FAIL), kind=PLAIN, exit_code=1)) is ExitCode.UNEXPECTED


def test_the_table_counts_what_is_explained_and_names_what_is_not() -> None:
    good = compared(record(Verdict.PASS, fp16=True), record(Verdict.UNSUPPORTED, REFUSED, fp16=False))
    bad = compared(record(Verdict.PASS), record(Verdict.FAIL, "loss | differs"), exit_code=1)
    rows = table.rows(outcome(record(Verdict.PASS), kind=PLAIN), [good, bad], {"shm-64mb": "needs root"})
    assert [row[1] for row in rows] == ["0", "0", "1", "not run"]
    assert rows[1][3] == "1 × PASS → UNSUPPORTED (fp16: true → false)"
    assert rows[2][3] == f"UNEXPLAINED 1 × PASS → FAIL: {CELL} (loss | differs)"
    page = table.markdown(rows, {"some": "some other host"})
    assert "(loss \\| differs)" in page and "| some: some other host | 0 |" in page
    assert all(len(line) <= 100 for line in table.text(rows, 100).splitlines())
