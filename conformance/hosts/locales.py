"""Locales in other encodings than UTF-8: what Python is told to run in one. Found on this host, or made."""

from __future__ import annotations

import atexit
import codecs
import dataclasses
import functools
import locale
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from conformance.model.verdict import NotRun

_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class _Locale:
    """A locale's charset in glibc's words, and its code page on Windows; None where there is none."""

    charset: str
    code_page: int | None


LOCALES: Mapping[str, _Locale] = {
    "C": _Locale("ANSI_X3.4-1968", None),
    "zh_CN": _Locale("GBK", 936),
    "ja_JP": _Locale("EUC-JP", 932),
}
"""By the name that an axis gives them."""


def encoding(name: str, *, windows: bool = sys.platform == "win32") -> str:
    """The codec, as Python calls it, in which a program of that locale reads files that it names no encoding for."""
    known = LOCALES[name]
    return codecs.lookup(f"cp{known.code_page}" if windows else known.charset).name


def variables(name: str, *, utf8_mode: bool) -> dict[str, str | None]:
    """The variables of a Python process in that locale.

    Raises:
        NotRun: this host has no such locale and cannot make one.
    """
    mode = "1" if utf8_mode else "0"
    if sys.platform == "win32":
        _check_code_page(name)
        return {"PYTHONUTF8": mode}
    # Without PYTHONCOERCECLOCALE=0 Python takes C.UTF-8 for C.
    told: dict[str, str | None] = {"PYTHONUTF8": mode, "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "LOCPATH": None}
    if name != "C":
        full = f"{name}.{LOCALES[name].charset}"
        told |= {"LC_ALL": full, "LOCPATH": _folder_with(name, full)}
    return told


def _check_code_page(name: str) -> None:
    wanted = LOCALES[name].code_page
    if wanted is None or locale.getencoding() != f"cp{wanted}":
        remedy = f"choose the language {name} for programs that do not support Unicode, in the region settings"
        if wanted is None:
            remedy = "run it on Linux: Windows has no such locale"
        raise NotRun(f"the locale {name}, with code page {wanted} (found {locale.getencoding()})", remedy)


@functools.cache
def _folder_with(name: str, full: str) -> str | None:
    """A folder with that locale, made anew; None where the system has it.

    Raises:
        NotRun: it can be neither found nor made.
    """
    charset = LOCALES[name].charset
    if _normal(full) in {_normal(each) for each in _answer(["locale", "-a"]).split()}:
        return None
    folder = Path(tempfile.mkdtemp(prefix="conformance-locales-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _answer(["localedef", "-i", name, "-f", charset, str(folder / full)])
    if not (folder / full / "LC_CTYPE").is_file():
        raise NotRun(f"the locale {full}, or localedef with its sources to make it", "apt-get install locales")
    return str(folder)


def _answer(command: list[str]) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, timeout=_SECONDS, encoding="utf-8", errors="replace"
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _normal(name: str) -> str:
    return name.lower().replace("-", "")
