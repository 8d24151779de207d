"""Record lines: their JSON Schema, and what must survive being written and read."""

from __future__ import annotations

import json
import math

import jsonschema
import pydantic
import pytest
from packaging.version import Version

from conformance.model.record import Record, to_line
from conformance.model.run_header import RunHeader, RunHeaderError, read_header, to_text
from conformance.model.verdict import Verdict
from reports import schema
from tests.reports import factory

# The text of a schema differs between pydantic's versions; its meaning does not.
CURRENT_PYDANTIC = pytest.mark.skipif(
    Version(pydantic.VERSION) < Version("2.10"), reason="the committed schema is written with pydantic 2.10 or newer"
)


@CURRENT_PYDANTIC
def test_the_committed_schema_is_current() -> None:
    assert schema.FILE.read_text(encoding="utf-8") == schema.text(), "run python -m reports.schema"


def test_lines_of_every_kind_are_valid() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(schema.FILE.read_text(encoding="utf-8")))
    jsonschema.Draft202012Validator.check_schema(validator.schema)
    seen = set()
    for record in factory.lanes():
        validator.validate(json.loads(to_line(record)))
        seen.add(record.verdict)
    assert seen >= set(Verdict) - {Verdict.XPASS, Verdict.NO_DATA}


def test_the_schema_refuses_what_is_no_record() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(schema.FILE.read_text(encoding="utf-8")))
    line = json.loads(to_line(factory.record()))
    for broken in (line | {"verdict": "OK"}, line | {"surprise": 1}, {"cell": "zero/train"}):
        assert not validator.is_valid(broken)


def test_nan_and_infinities_survive() -> None:
    record = factory.record(numbers={"loss": math.nan, "norm": math.inf, "least": -math.inf, "fine": 0.1})
    line = to_line(record)
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    numbers = Record.model_validate_json(line).numbers
    assert math.isnan(numbers["loss"])
    assert (numbers["norm"], numbers["least"], numbers["fine"]) == (math.inf, -math.inf, 0.1)


def test_a_lone_surrogate_costs_one_character() -> None:
    line = to_line(factory.record(log="file caf\udce9.txt"))
    assert Record.model_validate_json(line).log == "file caf?.txt"


def test_a_record_from_outside_a_checkout_can_be_read_back() -> None:
    record = factory.record(provenance=factory.provenance(git_commit=None, git_dirty=None))
    assert Record.model_validate_json(to_line(record)) == record


def test_axes_keep_their_types() -> None:
    record = factory.record(axes={"clipping": True, "stage": 1, "rate": 0.5, "dtype": "bf16"})
    axes = Record.model_validate_json(to_line(record)).axes
    assert [type(value) for value in axes.values()] == [bool, int, float, str]


def test_a_header_can_be_read_back(tmp_path) -> None:
    header = factory.header(["zero/train[stage=1]"], shard="1/2", excluded={"offload/nvme": "no libaio there"})
    file = tmp_path / "run.json"
    file.write_text(to_text(header), encoding="utf-8")
    assert read_header(file) == header
    assert not header.partial


def test_a_header_is_partial_until_the_run_has_finished() -> None:
    assert factory.header(finished=None).partial
    assert factory.header(interrupted=True).partial


def test_a_broken_header_names_the_file_and_the_key(tmp_path) -> None:
    file = tmp_path / "run.json"
    file.write_text('{"run": "r1"}', encoding="utf-8")
    with pytest.raises(RunHeaderError, match=r"run\.json: lane: Field required"):
        read_header(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(RunHeaderError, match=r"run\.json: file: "):
        read_header(file)


def test_an_unknown_field_of_a_header_is_refused() -> None:
    with pytest.raises(pydantic.ValidationError, match="plan"):
        RunHeader.model_validate(factory.header().model_dump() | {"plan": []})
