"""The text of a script."""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import textwrap
from pathlib import Path

import jinja2

from conformance.repro.forms import Repro
from conformance.repro.literal import literal, plain

WIDTH = 116
LINES = 80
"""The most that a script may have."""

_TEMPLATES = Path(__file__).with_name("templates")
_STANDARD = {
    "argparse": "import argparse",
    "builtins": "import builtins",
    "contextlib": "import contextlib",
    "datetime": "import datetime",
    "gc": "import gc",
    "os": "import os",
    "Path": "from pathlib import Path",
    "pathlib": "import pathlib",
    "socket": "import socket",
    "sys": "import sys",
    "tempfile": "import tempfile",
    "threading": "import threading",
    "time": "import time",
    "types": "import types",
}
_OTHERS = {
    "ds_to_universal": "from deepspeed.checkpoint import ds_to_universal",
    "get_fp32_state_dict_from_zero_checkpoint": (
        "from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint"
    ),
    "accelerate": "import accelerate",
    "deepspeed": "import deepspeed",
    "pytorch_lightning": "import pytorch_lightning",
    "nn": "from torch import nn",
    "numpy": "import numpy",
    "torch": "import torch",
    "transformers": "import transformers",
}
_ON_THE_CPU = 'os.environ["DS_ACCELERATOR"] = "cpu"  # before DeepSpeed is imported'


@dataclasses.dataclass(frozen=True)
class About:
    """What the first lines of a script say.

    Attributes:
        title: what the cell asks, or what is known to go wrong.
        expected: what should come.
        found: what came; empty where nothing is known of it.
        versions: of what it was found or made with.
        command: what makes the script.
        brief: what should come in one line, where there is no room for more; empty for nothing briefer.
    """

    title: str
    expected: str
    found: str
    versions: str
    command: str
    brief: str = ""

    def text(self, room: int) -> str:
        """The docstring. Where it has more than `room` lines, it tells less of what was found, and of what was
        expected."""
        sentences = re.split(r"(?<=[.!?]) +", self.found) if self.found else []
        tellings = [(self.expected, sentences[:count]) for count in range(len(sentences), -1, -1)]
        tellings += [(re.sub(r" \[.*\]$", "", self.expected), []), (self.brief or self.expected, [])]
        texts = [self._text(expected, " ".join(found)) for expected, found in tellings]
        return next((text for text in texts if text.count("\n") < room), texts[-1])

    def _text(self, expected: str, found: str) -> str:
        told = {"Expected": expected, "Found": found, "Versions": self.versions, "Made by": self.command}
        paragraphs = [f"{self.title.removesuffix('.')}.", *(f"{key}: {value}" for key, value in told.items() if value)]
        head, *rest = [
            textwrap.fill(each.replace("\\", "\\\\"), WIDTH, break_long_words=False, break_on_hyphens=False)
            for each in paragraphs
        ]
        return '"""' + f"{head}\n\n{chr(10).join(rest)}".replace('"""', "'''") + '\n"""'


def render(repro: Repro, about: About, *, cpu: bool) -> str:
    """A Python file that shows what `repro` is about, more tersely where it would have more than LINES lines; a few
    have more even so.

    Args:
        cpu: whether it is for the CPU, and must keep DeepSpeed from a GPU that may be there.
    """
    texts = (_text(repro, about, cpu=cpu, terse=terse) for terse in (False, True))
    return min(texts, key=lambda text: text.count("\n") > LINES)


def _text(repro: Repro, about: About, *, cpu: bool, terse: bool) -> str:
    dtype = "" if repro.dtype == "float32" else f"torch.{repro.dtype}"
    where = [each for each in ("" if cpu else "engine.device", dtype) if each]
    moved = f".to({', '.join(where)})" if where else ""
    template = _environment().get_template(repro.template)
    body = template.render(repro=repro, cpu=cpu, moved=moved, terse=terse)
    body = re.sub(r"[ \t]+\n", "\n", body)
    body = re.sub(r"\n{4,}", "\n\n\n", body).strip("\n") + "\n"
    rest = f"\n\n{_imports(body, cpu=cpu)}\n\n{body}"
    return about.text(LINES + 1 - rest.count("\n")) + rest


def _imports(body: str, *, cpu: bool) -> str:
    """The lines that import what `body` names."""
    names = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    standard, others = (
        sorted((line for name, line in lines.items() if name in names), key=_place) for lines in (_STANDARD, _OTHERS)
    )
    return "\n".join([*standard, "", *([_ON_THE_CPU] if cpu else []), *others])


def _place(line: str) -> tuple[bool, str]:
    """`import` before `from`, as import sorters have it."""
    return line.startswith("from"), line


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )
    made.filters["literal"] = literal
    made.filters["plain"] = plain
    return made
