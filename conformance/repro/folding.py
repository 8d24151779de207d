"""What is known of a scenario before it runs: the conditions that a cell decides."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any


class Unknown(Exception):
    """A value that only a run shows."""


@dataclasses.dataclass(frozen=True)
class Known:
    """What a cell fixes.

    Attributes:
        setting: attributes of every rank's Setting.
        parameters: what `setting["name"]` gives in every step.
        varying: names that some step gives another value, or that only some steps have.
        axes: whether `axes` is the cell's own, as in its check.
        words: texts by which tables are looked up; entries of large tables under other names are left out.
    """

    setting: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    varying: Collection[str] = ()
    axes: bool = False
    words: Collection[str] | None = None

    def truth(self, node: ast.expr) -> bool | None:
        """Whether a condition holds in this cell; None when that is not known."""
        try:
            return bool(self.value(node))
        except Unknown:
            return None

    def value(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            Unknown: the cell does not decide it.
        """
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                return tuple(map(self.value, parts))
            case ast.Attribute(value=ast.Name(id="setting"), attr=name) if name in self.setting:
                return self.setting[name]
            case ast.Subscript(value=ast.Name(id=told), slice=ast.Constant(value=name)) if self._tells(told):
                return self._parameter(name)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=told), attr="get"),
                args=[ast.Constant(value=name), *default],
                keywords=[],
            ) if self._tells(told):
                if name in self.parameters or name in self.varying:
                    return self._parameter(name)
                return self.value(default[0]) if default else None
            case ast.Call(func=ast.Name(id="str" | "int" | "bool" as kind), args=[inner], keywords=[]):
                return {"str": str, "int": int, "bool": bool}[kind](self.value(inner))
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return not self.value(inner)
            case ast.BoolOp(op=operator, values=parts):
                return self._combined(isinstance(operator, ast.And), parts)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return _compared(operator, self.value(left), self.value(right))
        raise Unknown

    def _tells(self, name: str) -> bool:
        return name == "setting" or (self.axes and name == "axes")

    def _parameter(self, name: object) -> Any:
        if name in self.parameters:
            return self.parameters[str(name)]
        raise Unknown

    def _combined(self, conjunction: bool, parts: list[ast.expr]) -> bool:
        truths = [self.truth(part) for part in parts]
        if (not conjunction) in truths:
            return not conjunction
        if None in truths:
            raise Unknown
        return conjunction


def _compared(operator: ast.cmpop, left: Any, right: Any) -> bool:
    match operator:
        case ast.Eq() | ast.Is():
            return bool(left == right)
        case ast.NotEq() | ast.IsNot():
            return bool(left != right)
        case ast.In():
            return left in right
        case ast.NotIn():
            return left not in right
    raise Unknown
