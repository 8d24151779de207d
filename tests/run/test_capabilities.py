"""What ranks tell of their host, and what a run makes of it when they do not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from conformance.hosts import capabilities as found_in_a_rank
from conformance.model.capability import KINDS, Condition
from conformance.model.record import Host
from conformance.model.verdict import NotRun
from conformance.ranks import RankPool, open_pool
from conformance.run.capabilities import check, told_by
from tests.reports import factory


@pytest.fixture(scope="module")
def pool() -> Iterator[RankPool]:
    opened = open_pool(environment={"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""})
    yield opened
    opened.close()


def ask(pool: RankPool, *names: str, scenario: str = "find", deadline: float = 60.0) -> Host:
    return told_by(
        pool, factory.LINUX, launcher="env", transport="gloo", device="cpu",
        scenario=f"tests.run.host_scenarios:{scenario}", names=names, deadline=deadline,
    )  # fmt: skip


def test_a_rank_tells_every_capability_of_this_host(pool: RankPool) -> None:
    host = told_by(pool, factory.LINUX, launcher="env", transport="gloo", device="cpu")
    assert not host.unknown
    assert set(host.capabilities) == set(KINDS)
    for name, value in host.capabilities.items():
        assert isinstance(value, (int, float) if KINDS[name] is float else KINDS[name]), name
        assert isinstance(value, bool) is (KINDS[name] is bool), name
    told = host.capabilities
    assert told["accelerator"] == "cpu" and told["bf16"] is True
    assert told["onednn_isa"] not in ("", "none")
    assert float(told["memory_bytes"]) > 0 and float(told["cores"]) > 0
    assert "torch" not in host.unknown and host.wine == factory.LINUX.wine


def test_what_hangs_dies_or_fails_is_named_and_the_rest_is_known(pool: RankPool) -> None:
    host = ask(pool, "fails", "ipv6", "hangs", "says_yes", "dies", "cores", deadline=3.0)
    assert set(host.capabilities) == {"ipv6", "says_yes", "cores"}
    assert host.unknown == {
        "fails": "OSError: planted",
        "hangs": host.unknown["hangs"],
        "dies": host.unknown["dies"],
    }
    assert host.unknown["hangs"].startswith("while it was asked for, the rank timed out")
    assert host.unknown["dies"].startswith("while it was asked for, the rank died (exit code 7)")


def test_three_ranks_are_asked_and_no_more(pool: RankPool) -> None:
    host = ask(pool, "dies", "dies_too", "hangs", "ipv6", deadline=2.0)
    assert not host.capabilities
    assert host.unknown["ipv6"] == "not asked: 3 ranks ended before it was its turn"


def test_a_rank_that_comes_to_no_question_leaves_all_unknown(pool: RankPool) -> None:
    host = ask(pool, "fp16", "cores", scenario="raise_at_once")
    assert not host.capabilities
    assert set(host.unknown.values()) == {"the rank raised ImportError: no module named deepspeed"}


def test_without_ranks_all_is_unknown() -> None:
    closed = open_pool(preload=())
    closed.close()
    host = ask(closed, "fp16")
    assert host.unknown == {"fp16": "no rank could be started: the pool of ranks is closed"}


@pytest.mark.parametrize(
    ("wanted", "capabilities", "unknown", "lacks"),
    [
        (True, {"fp16": True}, {}, None),
        (True, {"fp16": False}, {}, "a host with fp16 = true (found false)"),
        (False, {"fp16": True}, {}, "a host with fp16 = false (found true)"),
        (True, {}, {"fp16": "planted"}, "a host with fp16 = true (not known of this one: planted)"),
        (False, {}, {}, "a host with fp16 = false (not known of this one: no rank was asked)"),
    ],
)
def test_a_need(wanted: bool, capabilities: dict[str, bool], unknown: dict[str, str], lacks: str | None) -> None:
    host = factory.LINUX.model_copy(update={"capabilities": capabilities, "unknown": unknown})
    if lacks is None:
        check(Condition("fp16", wanted), host)
        return
    with pytest.raises(NotRun) as error:
        check(Condition("fp16", wanted), host)
    assert error.value.lacks == lacks and error.value.remedy


@pytest.mark.skipif(sys.platform != "linux", reason="cgroups are Linux's")
@pytest.mark.parametrize(
    ("told", "files", "quota", "limit"),
    [
        ("0::/job/inner", {"job/cpu.max": "150000 100000", "job/inner/cpu.max": "max 100000"}, 1.5, None),
        ("0::/", {"cpu.max": "50000 100000", "memory.max": "3221225472"}, 0.5, 3221225472),
        ("0::/not/mounted/here", {"cpu.max": "200000 100000", "memory.max": "max"}, 2.0, None),
        (
            "4:memory:/job\n3:cpu,cpuacct:/job",
            {
                "cpu,cpuacct/job/cpu.cfs_quota_us": "300000",
                "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
                "memory/job/memory.limit_in_bytes": "1073741824",
            },
            3.0,
            1 << 30,
        ),
        ("3:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None, None),
    ],
)
def test_limits_of_cgroups(
    tmp_path: Path, told: str, files: dict[str, str], quota: float | None, limit: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(text + "\n", encoding="utf-8")
    (tmp_path / "told").write_text(told + "\n", encoding="utf-8")
    groups: Sequence[Path] = list(found_in_a_rank._cgroups(tmp_path / "root", tmp_path / "told"))
    assert min((q for group in groups if (q := found_in_a_rank._quota(group)) is not None), default=None) == quota
    numbers = [found_in_a_rank._number(group / name) for group in groups for name in found_in_a_rank._MEMORY_LIMITS]
    assert min((n for n in numbers if n is not None), default=None) == limit
