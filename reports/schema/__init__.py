"""The JSON Schema of record lines, for readers in other languages."""

from __future__ import annotations

import json
from pathlib import Path

from conformance.model.record import json_schema

FILE = Path(__file__).with_name("record.schema.json")


def text() -> str:
    """The schema as the committed file should hold it."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
