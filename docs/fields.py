"""The fields of the models that files and records are read with: names, kinds, defaults and what their code says."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pydantic


@dataclasses.dataclass(frozen=True)
class Field:
    """One field of a model.

    Attributes:
        kind: its JSON type in words, such as `list of text` or `Host or none`.
        default: JSON, or empty where the field is required.
        meaning: what the code says of it; empty where it says nothing.
    """

    name: str
    kind: str
    default: str
    meaning: str


def fields(model: type[pydantic.BaseModel]) -> list[Field]:
    """The model's own fields, in order."""
    schema = model.model_json_schema(mode="validation")
    meanings = meanings_of(model)
    required = schema.get("required", ())
    return [
        Field(
            name=name,
            kind=_kind(content),
            default="" if name in required else _default(content),
            meaning=meanings.get(name, ""),
        )
        for name, content in schema["properties"].items()
    ]


def models_in(model: type[pydantic.BaseModel]) -> list[type[pydantic.BaseModel]]:
    """The model and all models that its fields hold, each once, outer ones first."""
    found: dict[type[pydantic.BaseModel], None] = {}

    def add(one: type[pydantic.BaseModel]) -> None:
        if one not in found:
            found[one] = None
            for field in one.model_fields.values():
                for inner in _models(field.annotation):
                    add(inner)

    add(model)
    return list(found)


def meanings_of(cls: type) -> dict[str, str]:
    """What the code says of a class's attributes: a text below each, or the section `Attributes:` of its own."""
    found = dict(_listed(inspect.getdoc(cls) or "")) if cls.__doc__ else {}
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    for statement, following in zip(body.body, body.body[1:], strict=False):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def _listed(doc: str) -> Iterator[tuple[str, str]]:
    _, _, section = doc.partition("Attributes:\n")
    for entry in re.split(r"\n(?= {4}\S)", "\n" + section.partition("\n\n")[0])[1:]:
        names, _, text = entry.partition(":")
        for name in names.split(","):
            yield name.strip(), " ".join(text.split())


def _models(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models(inner)


SIMPLE = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "none"}


def _kind(schema: dict[str, Any]) -> str:
    """A JSON Schema in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return _quoted(schema["const"])
    if "enum" in schema:
        return " or ".join(map(_quoted, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each) for each in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"table of {_kind(values)}" if isinstance(values, dict) and values else "table"
    if schema.get("format") == "date":
        return "day"
    return SIMPLE.get(str(schema.get("type")), "anything")


def _quoted(value: Any) -> str:
    return f"`{value}`"


def _default(schema: dict[str, Any]) -> str:
    match schema.get("default"):
        case None:
            return "none" if "default" in schema else "empty"
        case [] | {} | "":
            return "empty"
        case bool(value):
            return "true" if value else "false"
        case [*values]:
            return ", ".join(f"`{value}`" for value in values)
        case value:
            return f"`{value}`"
