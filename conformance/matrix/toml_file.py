"""Reading one TOML file into a model, with errors that name file and key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

import pydantic

from conformance.matrix.errors import MatrixError

Model = TypeVar("Model", bound=pydantic.BaseModel)

SHOWN = 80
"""Characters of a wrong value that an error quotes."""


def read_toml(path: Path, model: type[Model]) -> Model:
    """The content of `path` as `model`.

    Raises:
        MatrixError: unreadable, not TOML, or not what the model expects.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MatrixError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise MatrixError(
            f"{path}: found bytes that are not UTF-8 at offset {error.start}, expected UTF-8 text"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise MatrixError(f"{path}: not TOML: {error}") from None
    try:
        return model.model_validate(content)
    except pydantic.ValidationError as error:
        raise MatrixError("\n".join(f"{path}: {_explain(detail)}" for detail in error.errors())) from None


def _explain(detail: object) -> str:
    assert isinstance(detail, dict)
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"]).lstrip(".") or "file"
    if detail["type"] == "missing":
        return f"{key}: missing, expected a value"
    if detail["type"] == "extra_forbidden":
        return f"{key}: found an unknown key, expected only known ones"
    found = repr(detail["input"])
    if len(found) > SHOWN:
        found = f"{found[:SHOWN]}…"
    expected = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    return f"{key}: found {found}, expected {expected}"
