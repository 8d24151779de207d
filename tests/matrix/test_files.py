"""Matrix files: the project's own are right, and wrong ones say what is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conformance.matrix import MATRICES, MatrixError, load_matrix

PLANTED = Path(__file__).resolve().parents[1] / "run" / "planted" / "matrices"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PLANTED, tmp_path / "matrices"))


def test_the_projects_own_files_are_right() -> None:
    matrix = load_matrix(MATRICES)
    ids = [cell.id for cell in matrix.cells]
    assert len(ids) == len(set(ids)) > 150
    smoke = [cell for cell in matrix.cells if cell.smoke and (cell.lanes is None or "linux_gloo" in cell.lanes)]
    assert 40 <= len(smoke) <= 80


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            "lanes/linux_gloo.toml",
            'os = "linux"',
            'os = "plan9"',
            "lane.os: found 'plan9', expected 'linux' or 'windows'",
        ),
        ("lanes/linux_gloo.toml", 'name = "linux_gloo"', 'name = "other"', "found 'other', expected 'linux_gloo'"),
        ("lanes/linux_gloo.toml", "[lane]", "[lane", "not TOML"),
        (
            "lanes/linux_gloo.toml",
            'device = "cpu"',
            'device = "cpu"\ncolour = "red"',
            "lane.colour: found an unknown key",
        ),
        ("lanes/linux_gloo.toml", "title = ", "titel = ", "lane.title: missing, expected a value"),
        ("suites/planted.toml", "deadline = 4", "deadline = -4", "case[0].deadline: found -4, expected greater than 0"),
        ("suites/planted.toml", "world = [2]", "world = []", "at least one value for axis 'world'"),
        ("suites/planted.toml", 'rules = ["PLANT-01"]', 'rules = ["PLANT-99"]', "found 'PLANT-99', expected an id"),
        ("suites/planted.toml", '"raise"', '"a b"', "without spaces"),
        ("suites/planted.toml", '{ says = "pass" }', '{ says = "sing" }', "(found 'sing')"),
        ("suites/planted.toml", '{ says = "pass" }', '{ sings = "pass" }', "(found 'sings')"),
        ("known_issues.toml", "planted/known[*]", "planted/unknown[*]", "match no cell"),
        ("known_issues.toml", 'match = "the', 'match = "(the', "a regular expression"),
        ("known_issues.toml", '">=0.16"', '"newest"', "a version specifier"),
        ("known_issues.toml", 'expect = "FAIL"', 'expect = "PASS"', "expected 'FAIL', 'CRASH' or 'TIMEOUT'"),
        (
            "known_issues.toml",
            'expect = "FAIL"',
            'expect = "FAIL"\ncapabilities = { fp61 = true }',
            "issue[0].capabilities: found {'fp61': True}, expected a capability: accelerator,",
        ),
        ("known_issues.toml", 'expect = "FAIL"', 'expect = "FAIL"\ncapabilities = "fp16"', "a table of capabilities"),
        (
            "suites/planted.toml",
            '"gpus:4096"',
            '"can:fp61"',
            "case[3].needs[0]: found 'can:fp61', expected a capability",
        ),
        ("suites/planted.toml", '"gpus:4096"', '"can:cores=4"', 'expected a comparison such as ">=4"'),
        (
            "suites/planted.toml",
            "[[case.smoke]]",
            '[[case.exclude]]\nwhere = { says = "fail" }\ncapabilities = { ipv6 = "no" }\nreason = "r"\n[[case.smoke]]',
            "case[1].exclude[0].capabilities: found {'ipv6': 'no'}, expected true or false for ipv6",
        ),
        ("lanes/linux_gloo.toml", 'device = "cpu"', 'device = "cpu"\nneeds = ["can:fp61"]', "lane.needs[0]: found"),
        ("stacks/pinned.toml", '"2.13.0"', '">=2"', "an exact version"),
        ("rules/planted.toml", 'id = "PLANT-01"', 'id = "plant1"', "rule[0].id: found 'plant1'"),
    ],
)
def test_a_wrong_file_is_named_with_key_found_and_expected(
    folder: Path, file: str, old: str, new: str, said: str
) -> None:
    path = folder / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(MatrixError) as error:
        load_matrix(folder)
    assert said in str(error.value)
    assert Path(file).name in str(error.value)


def test_a_rule_without_a_case_is_an_error_until_a_reason_is_given(folder: Path) -> None:
    rules = folder / "rules" / "planted.toml"
    rules.write_text(
        rules.read_text(encoding="utf-8") + '[[rule]]\nid = "PLANT-02"\ntext = "t"\nsource = "s"\n', encoding="utf-8"
    )
    with pytest.raises(MatrixError, match="PLANT-02: no case checks it"):
        load_matrix(folder)
    (folder / "rules" / "uncovered.toml").write_text(
        '[[uncovered]]\nrule = "PLANT-02"\nreason = "r"\n', encoding="utf-8"
    )
    assert load_matrix(folder).uncovered == {"PLANT-02": "r"}


def test_no_rule_is_left_out() -> None:
    """Rules are numbered without a gap in each family, and each has a case, or a reason why it has none."""
    matrix = load_matrix(MATRICES)
    families: dict[str, list[int]] = {}
    for rule in matrix.rules:
        family, _, number = rule.rpartition("-")
        families.setdefault(family, []).append(int(number))
    gaps = {family: sorted(set(range(1, max(found) + 1)) - set(found)) for family, found in families.items()}
    assert not any(gaps.values()), f"no rules with the numbers {gaps}"
    checked = {rule for cell in matrix.cells for rule in cell.rules}
    assert checked | set(matrix.uncovered) == set(matrix.rules)


def test_bytes_that_are_not_utf8_are_told(folder: Path) -> None:
    (folder / "known_issues.toml").write_bytes(b"# caf\xe9\n")
    with pytest.raises(MatrixError, match="not UTF-8"):
        load_matrix(folder)
