"""What needs DeepSpeed imported, in a process of its own: `survey FILE`, or `build NAME`."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def survey(file: Path) -> None:
    """Write to `file`, as JSON, of each op that DeepSpeed has for this accelerator whether it can be built."""
    from deepspeed.ops.op_builder.all_ops import ALL_OPS

    file.write_text(json.dumps({name: _verdict(builder) for name, builder in ALL_OPS.items()}), encoding="utf-8")


def _verdict(builder: Any) -> dict[str, Any]:
    told = io.StringIO()
    try:
        with contextlib.redirect_stdout(told):  # stderr must stay a file: DeepSpeed duplicates its descriptor
            compatible = bool(builder.is_compatible(verbose=True))
    except Exception as error:
        return {"compatible": False, "why": f"{type(error).__name__}: {error}"}
    words = " ".join(_COLOUR.sub("", told.getvalue()).replace("[WARNING]", "").split())
    return {"compatible": compatible, "why": "" if compatible else words or "DeepSpeed does not say why"}


def build(name: str) -> None:
    """Compile an op as a rank would, into torch's cache of extensions."""
    from deepspeed.ops.op_builder.all_ops import ALL_OPS

    ALL_OPS[name].load(verbose=True)


def main(words: list[str]) -> None:
    """Do what the command line says."""
    what, argument = words
    if what == "survey":
        survey(Path(argument))
    else:
        build(argument)


if __name__ == "__main__":
    main(sys.argv[1:])
