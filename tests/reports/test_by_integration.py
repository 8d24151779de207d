"""The view by integration: what each handles, refuses and gets wrong."""

from __future__ import annotations

from conformance.model.record import KnownIssueText, Record
from conformance.model.run_header import RunHeader
from conformance.model.verdict import Verdict
from reports.by_integration import IntegrationView, by_integration
from reports.formats import html
from reports.merge import merge
from tests.reports import factory


def records() -> list[Record]:
    """`reference` on two lanes and `other` on one."""

    def told(cell: str, verdict: Verdict, integration: str = "reference", **changes: object) -> Record:
        return factory.record(cell, verdict, integration=integration, **changes)

    issue = KnownIssueText(id="clips-twice", title="Clips twice", reference="https://example.org/1")
    return [
        told("zero/train[stage=1]", Verdict.PASS),
        told("zero/train[stage=2]", Verdict.PASS),
        told("zero/train[stage=2]", Verdict.PASS, lane="linux_mpi", launcher="mpi"),
        told("zero/modes[stage=1]", Verdict.PASS),
        told("zero/modes[stage=2]", Verdict.UNSUPPORTED, reason="refused: stage 2 cannot"),
        told("offload/train[device=nvme]", Verdict.NOT_RUN, reason="needs libaio", remedy="install it"),
        told("zero/train[stage=1]", Verdict.PASS, "other"),
        told("zero/train[stage=2]", Verdict.FAIL, "other", reason="loss differs"),
        told("zero/clip", Verdict.XFAIL, "other", reason="norm 2", known_issue=issue),
        told("zero/modes[stage=1]", Verdict.ERROR, "other", reason="no disk"),
    ]


def headers() -> list[RunHeader]:
    """Each run set out to do what it did."""
    planned: dict[tuple[str, str], list[str]] = {}
    for record in records():
        planned.setdefault((record.lane, record.integration), []).append(record.cell)
    return [factory.header(cells, lane=lane, integration=integration) for (lane, integration), cells in planned.items()]


def views() -> dict[str, IntegrationView]:
    return {view.name: view for view in by_integration(merge(records(), headers()))}


def test_what_passes_is_told_by_suite_and_case() -> None:
    found = views()
    assert set(found) == {"reference", "other"}
    reference, other = found["reference"], found["other"]
    assert len(reference.columns) == 2
    (zero,) = reference.handles
    assert (zero.suite, zero.tally[Verdict.PASS], zero.tally.tested) == ("zero", 4, 4)
    assert zero.whole == ("train", "modes")
    assert zero.part == ()
    (zero,) = other.handles
    assert zero.whole == ()
    ((case, tally),) = zero.part
    assert (case, tally[Verdict.PASS], tally.tested) == ("train", 1, 2)


def test_what_is_refused_and_what_did_not_run_is_not_wrong() -> None:
    reference = views()["reference"]
    assert [(group.case, group.reason, group.count) for group in reference.refuses] == [
        ("modes", "refused: stage 2 cannot", 1)
    ]
    assert [(group.reason, group.count) for group in reference.untested] == [("needs libaio", 1)]
    assert reference.wrong == ()
    assert reference.wrong_count == 0


def test_what_is_wrong_counts_known_or_not_and_a_failed_harness_does_not() -> None:
    other = views()["other"]
    assert [(group.case, group.verdict) for group in other.wrong] == [
        ("train", Verdict.FAIL),
        ("clip", Verdict.XFAIL),
    ]
    assert other.wrong_count == 2
    assert other.refuses == other.untested == ()
    assert other.tally.untested == 1


def test_the_versions_that_were_driven() -> None:
    newer = factory.provenance("later").model_copy(update={"packages": {"deepspeed": "0.20.0", "torch": "2.13.0"}})
    more = factory.record("zero/train[stage=1]", lane="windows_gloo", provenance=newer)
    (view,) = by_integration(merge([factory.record("zero/train[stage=1]"), more], []))
    assert view.versions == {"deepspeed": ("0.19.8", "0.20.0")}


def test_the_page_tells_all_of_it() -> None:
    text = html.render(merge(records(), headers()))["index.html"]
    section = text[text.index('<section id="integrations"') :]
    section = section[: section.index('<section id="reading"')]
    for expected in (
        'id="integration-other"',
        "refused: stage 2 cannot",
        "Clips twice",
        "loss differs",
        "1 of 2",
        "Of 2 failing results",
    ):
        assert expected in section
    assert "No lane reported anything." in html.render(merge([], []))["index.html"]
