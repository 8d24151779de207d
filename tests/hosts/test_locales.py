"""Locales in other encodings than UTF-8, found or made."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from conformance.hosts import locales
from conformance.model.verdict import NotRun

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Windows has code pages instead")
ASK = "import codecs, locale; print(codecs.lookup(locale.getpreferredencoding(False)).name)"


@ON_LINUX
@pytest.mark.parametrize("utf8_mode", [False, True])
@pytest.mark.parametrize("name", locales.LOCALES)
def test_python_reads_files_in_the_encoding_of_the_locale(name: str, utf8_mode: bool) -> None:
    try:
        told = locales.variables(name, utf8_mode=utf8_mode)
    except NotRun as lack:
        pytest.skip(str(lack))
    environment = {key: value for key, value in {**os.environ, **told}.items() if value is not None}
    answer = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, encoding="ascii")
    assert answer.stdout.strip() == ("utf-8" if utf8_mode else locales.encoding(name)), answer.stderr


@ON_LINUX
def test_a_host_without_sources_of_locales_says_what_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    locales._folder_with.cache_clear()
    with pytest.raises(NotRun) as lack:
        locales.variables("zh_CN", utf8_mode=False)
    assert (lack.value.lacks.partition(",")[0], lack.value.remedy) == (
        "the locale zh_CN.GBK",
        "apt-get install locales",
    )
    assert locales.variables("C", utf8_mode=False)["LC_ALL"] == "C"


def test_code_pages_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locales.locale, "getencoding", lambda: "cp1252")
    with pytest.raises(NotRun, match=r"code page 936 \(found cp1252\)"):
        locales._check_code_page("zh_CN")
    with pytest.raises(NotRun, match="run it on Linux"):
        locales._check_code_page("C")
    monkeypatch.setattr(locales.locale, "getencoding", lambda: "cp936")
    locales._check_code_page("zh_CN")
    assert locales.encoding("zh_CN", windows=True) == "gbk"
