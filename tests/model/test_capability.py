"""Conditions over what a host can do."""

from __future__ import annotations

import pytest

from conformance.hosts.capabilities import FINDERS
from conformance.model.capability import KINDS, Condition, condition_of, encoding_name

GIB = 1 << 30


def test_each_capability_is_found_by_something() -> None:
    assert set(FINDERS) == set(KINDS)


@pytest.mark.parametrize(
    ("name", "wanted", "found", "holds"),
    [
        ("fp16", True, True, True),
        ("fp16", True, False, False),
        ("fp16", False, False, True),
        ("locale_encoding", "utf-8", "utf-8", True),
        ("locale_encoding", "!utf-8", "utf-8", False),
        ("locale_encoding", "!utf-8", "gbk", True),
        ("locale_encoding", "euc_*", "euc_jp", True),
        ("locale_encoding", "?bk", "gbk", True),
        ("locale_encoding", "gb", "gbk", False),
        ("onednn_isa", "*AMX*", "Intel AVX10.1 and Intel AMX with bfloat16", True),
        ("onednn_isa", "!*amx*", "Intel AVX2", True),
        ("aten_isa", "AVX[2]", "AVX2", False),
        ("cores", ">=4", 4, True),
        ("cores", ">=4", 3.5, False),
        ("cores", "<2", 1.5, True),
        ("cores", ">2", 2, False),
        ("cores", "<= 2", 2, True),
        ("cores", "==1", 1, True),
        ("cores", "!=1", 1, False),
        ("memory_bytes", ">=3 GiB", 3 * GIB, True),
        ("memory_bytes", ">=3 GiB", 3 * GIB - 1, False),
        ("shm_bytes", "<=64MiB", 64 << 20, True),
    ],
)
def test_a_condition(name: str, wanted: bool | str, found: bool | float | str, holds: bool) -> None:
    condition = Condition(name, wanted)
    assert condition.holds({name: found}) is holds
    assert not condition.holds({}), "what is not known holds no condition, not even a negative one"


@pytest.mark.parametrize(
    ("name", "wanted", "said"),
    [
        ("fp61", True, "a capability: accelerator, amx, .*found 'fp61'"),
        ("fp16", "true", "true or false for fp16 .found 'true'"),
        ("cores", "4", "a comparison such as \">=4\".*found '4'"),
        ("cores", True, "a comparison"),
        ("memory_bytes", ">=3 GB", "a comparison"),
        ("locale_encoding", True, "a glob"),
        ("locale_encoding", "!", "a glob"),
        ("locale_encoding", "", "a glob"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(name: str, wanted: bool | str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Condition(name, wanted)


@pytest.mark.parametrize(
    ("need", "condition"),
    [
        ("fp16", Condition("fp16", True)),
        ("fp16=false", Condition("fp16", False)),
        ("cores>=4", Condition("cores", ">=4")),
        ("cores==1", Condition("cores", "==1")),
        ("memory_bytes>=3 GiB", Condition("memory_bytes", ">=3 GiB")),
        ("locale_encoding=!utf-8", Condition("locale_encoding", "!utf-8")),
        ("onednn_isa=*AMX*", Condition("onednn_isa", "*AMX*")),
    ],
)
def test_a_need(need: str, condition: Condition) -> None:
    assert condition_of(need) == condition


@pytest.mark.parametrize("need", ["", "fp61", "fp16=maybe", "cores", "locale_encoding", "cores=4"])
def test_a_need_that_makes_no_sense_is_refused(need: str) -> None:
    with pytest.raises(ValueError, match="found"):
        condition_of(need)


@pytest.mark.parametrize(
    ("given", "name"),
    [("UTF-8", "utf-8"), ("cp936", "gbk"), ("ANSI_X3.4-1968", "ascii"), ("EUC-JP", "euc_jp"), ("X-None", "x-none")],
)
def test_an_encoding_has_one_name(given: str, name: str) -> None:
    assert encoding_name(given) == name
