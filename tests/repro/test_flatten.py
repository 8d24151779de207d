"""Definitions of several modules in one namespace, and nothing that is not needed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from conformance.repro import flatten as flattening
from conformance.repro.flatten import Flat, NotFlat, Source, Symbol, flatten, parse
from conformance.repro.folding import Known

Flatten = Callable[..., Flat]


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> Flatten:
    """Flattens `conformance.a:root` of modules that are given as texts."""

    def run(known: Known = flattening.NOTHING, *, root: str = "root", **texts: str) -> Flat:
        sources = {
            f"conformance.{name}": parse(f"conformance.{name}", textwrap.dedent(text)) for name, text in texts.items()
        }

        def source_of(module: str) -> Source:
            return sources.get(module) or parse(module, "", is_package=True)

        monkeypatch.setattr(flattening, "source_of", source_of)
        monkeypatch.setattr(flattening.importlib.util, "find_spec", lambda name: sources.get(name))
        return flatten([Symbol("conformance.a", root)], {}, elsewhere=known)

    return run


def call(result: Flat, name: str = "root", *arguments: Any) -> Any:
    """Run the flattened text by itself and call one of its functions."""
    namespace: dict[str, Any] = {}
    exec("\n\n".join([*result.imports, *result.definitions]), namespace)
    return namespace[name](*arguments)


def test_only_what_is_needed_comes_along_in_an_order_that_runs(flat: Flatten) -> None:
    result = flat(
        a="""
            import json, os
            from conformance import b
            from conformance.b import TABLE as table
            UNUSED = os.getcwd()
            def root(x=b.START):
                return json.dumps([table, b.double(x)])
        """,
        b="""
            START = 3
            def double(x): return factor() * x
            def factor(): return 2
            TABLE = {"double": double(START)}
            def unused(): return 1
        """,
    )
    assert call(result) == '[{"double": 6}, 6]'
    assert result.imports == ("import json",)
    assert not any("unused" in each or "UNUSED" in each for each in result.definitions)


def test_two_of_one_name_are_told_apart_and_locals_hide_nothing(flat: Flatten) -> None:
    result = flat(
        a="""
            from conformance import b, c
            def root():
                def inner(helper): return helper + b.helper() + c._helper()
                question = b.question()
                return [inner(question), *[c.item(item) for item in [1]]]
        """,
        b="""
            def helper(): return 10
            def question(): return 1
        """,
        c="""
            def _helper(): return 100
            def helper(): return 0
            def item(x): return x
        """,
    )
    assert call(result) == [111, 1]


def test_imports_in_functions_go_or_stay(flat: Flatten) -> None:
    result = flat(
        a="""
            def root():
                import math
                from conformance.b import (
                    value,
                )
                from conformance import b as other
                return math.floor(value()) + other.value()
        """,
        b="def value(): return 1.5",
    )
    assert call(result) == 2.5
    assert "conformance" not in "\n".join(result.definitions)
    assert "import math" in result.definitions[-1]


def test_annotations_of_functions_go_and_fields_stay(flat: Flatten) -> None:
    result = flat(
        a="""
            import dataclasses
            from conformance.b import Type
            @dataclasses.dataclass
            class Value:
                field: int = 3
                def get(self, by: Type) -> Type:
                    total: Type = self.field + by
                    return total
            def root(*many: Type, key: Type = 1, **more: Type) -> "dict[Type, Type]":
                return Value().get(key)
        """,
        b="Type = int",
    )
    assert call(result) == 4
    assert not any("Type" in each for each in result.definitions)


def test_branches_of_other_cells_go_with_what_they_need(flat: Flatten) -> None:
    texts = {
        "a": """
            from conformance import b
            def root(setting):
                if setting["call"] == "other":
                    return b.other()
                elif setting.integration in ("x", "y"):
                    kind = b.mine() if setting.get("kind") is None else b.other()
                    if not setting["on"] and b.mine():
                        return kind
                    return b.other()
                else:
                    return b.other()
                return b.other()
        """,
        "b": """
            def mine(): return 1
            def other(): return 2
        """,
    }
    known = Known({"integration": "x"}, {"call": "one", "on": False}, varying={"world"})

    class Setting(dict[str, object]):
        integration = "x"

    result = flat(known, **texts)
    assert call(result, "root", Setting(call="one", on=False)) == 1
    assert "b.other" not in str(result.definitions)
    assert call(flat(Known(), **texts), "root", Setting(call="other")) == 2


def test_what_differs_between_steps_decides_nothing() -> None:
    known = Known({}, {"one": 1}, varying={"two"}, axes=True)

    def truth(text: str) -> bool | None:
        return known.truth(flattening.ast.parse(text, mode="eval").body)

    assert truth('setting["two"] == 1') is None
    assert truth('setting.get("two") is None') is None
    assert truth('setting.get("three") is None') is True
    assert truth('axes["one"] == 1') is True
    assert truth('axes["one"] == 1 and unknown') is None
    assert truth('unknown and str(axes["one"]) != "1"') is False
    assert truth('unknown or axes["one"] in (1, 2)') is True
    assert Known({}, {"one": 1}).truth(flattening.ast.parse('axes["one"]', mode="eval").body) is None


def test_a_large_table_keeps_the_entries_that_are_looked_up(flat: Flatten) -> None:
    entries = "".join(f'    "{name}": {name}(),  # of {name}\n' for name in "abcdefghij")
    functions = "".join(f"def {name}(): return '{name.upper()}'\n" for name in "abcdefghij")
    text = f"{functions}TABLE = {{\n{entries}}}\ndef root(): return list(TABLE.values())\n"
    assert call(flat(Known(words={"c", "j"}), a=text)) == ["C", "J"]
    assert call(flat(Known(words={"a"}), a=text)) == ["A"]
    assert len(call(flat(Known(words={"other"}), a=text))) == 10


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("from pathlib import Path\ndef root(): return Path(__file__)", "uses its __file__"),
        (
            "def root(): return ['-m', 'conformance.suites.common.launched']",
            "names conformance.suites.common.launched in a text",
        ),
        ("from conformance import b\ndef root(): return vars(b)", "uses the module conformance.b as a value"),
        ("N = 0\ndef root():\n    global N\n    N += 1", "changes its global N"),
        ("from conformance.b import nothing\ndef root(): return nothing", "conformance.b has no nothing"),
        ("import json\nfrom conformance.b import dump\ndef root(): return json, dump()", "two imports bring one name"),
    ],
)
def test_what_cannot_stand_alone_is_refused(flat: Flatten, text: str, reason: str) -> None:
    with pytest.raises(NotFlat, match=reason):
        flat(a=text, b="import simplejson as json\ndef dump(): return json.dumps(1)")
