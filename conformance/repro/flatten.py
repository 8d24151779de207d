"""Flattening: the definitions that some functions need, out of all modules of this project, in one namespace.

What is kept is the source text itself, comments included. Only references change: `training.question(axes)` becomes
`question(axes)`, an import of this project goes, and annotations of functions go, since they would need the types. So
do the branches, and the entries of large tables, that a cell has no use for.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.repro.folding import Known

PROJECT = "conformance"
NOTHING = Known()
_NAMES_A_MODULE = re.compile(rf"\b{PROJECT}(\.[a-z_]+)+")
_OF_THE_FILE = frozenset({"__file__", "__package__", "__spec__", "__loader__"})
_LARGE = 8
"""Lines from which on a table loses the entries that a cell does not look up."""
_ELSEWHERE = 'raise AssertionError("not in this cell")'

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class NotFlat(Exception):
    """What is asked for cannot stand outside of this project; the text says why."""


@dataclasses.dataclass(frozen=True)
class Symbol:
    """A name that a module of this project defines."""

    module: str
    name: str


@dataclasses.dataclass(frozen=True)
class Foreign:
    """A name that an import from outside brings: `import module as alias`, or `from module import name as alias`."""

    module: str
    name: str | None
    alias: str

    @property
    def statement(self) -> str:
        """The import statement."""
        if self.name is not None:
            renamed = "" if self.alias == self.name else f" as {self.alias}"
            return f"from {self.module} import {self.name}{renamed}"
        renamed = "" if self.alias == self.module.partition(".")[0] else f" as {self.alias}"
        return f"import {self.module}{renamed}"


@dataclasses.dataclass(frozen=True)
class Module:
    """A module of this project, as a value."""

    name: str


@dataclasses.dataclass(frozen=True)
class Imported:
    """A name of this project that an import brings, not followed yet."""

    module: str
    name: str


Target = Symbol | Foreign | Module | Imported
Scope = Mapping[str, Target | None]
"""What names stand for; None for a name of the scope's own."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A module, parsed.

    Attributes:
        lines: its text in UTF-8, as positions in the tree count.
        bindings: what its top-level names stand for.
        statements: the statements that define each of its own names.
    """

    name: str
    is_package: bool
    lines: tuple[bytes, ...]
    bindings: Mapping[str, Target]
    statements: Mapping[str, tuple[ast.stmt, ...]]


def parse(name: str, text: str, *, is_package: bool = False) -> Source:
    """The module `name` with this text."""
    bindings: dict[str, Target] = {}
    statements: dict[str, tuple[ast.stmt, ...]] = {}
    for statement in _top_level(ast.parse(text).body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bindings.update(imported(statement, name, is_package))
        else:
            for bound in sorted(_bound_in([statement])):
                bindings[bound] = Symbol(name, bound)
                statements[bound] = (*statements.get(bound, ()), statement)
    return Source(
        name, is_package, tuple(line.encode() for line in text.splitlines(keepends=True)), bindings, statements
    )


def _top_level(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in statements:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            yield from _top_level(statement.body)
        else:
            yield statement


@functools.cache
def source_of(module: str) -> Source:
    """The module of that name, read from its file and not imported.

    Raises:
        NotFlat: there is no such file.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise NotFlat(f"the module {module} has no file")
    text = Path(spec.origin).read_text(encoding="utf-8")
    return parse(module, text, is_package=spec.submodule_search_locations is not None)


def imported(statement: ast.Import | ast.ImportFrom, module: str, is_package: bool = False) -> dict[str, Target]:
    """What the names stand for that an import statement of `module` binds."""
    found: dict[str, Target] = {}
    if isinstance(statement, ast.Import):
        for each in statement.names:
            if _is_ours(each.name):
                found[each.asname or PROJECT] = Module(each.name if each.asname else PROJECT)
            else:
                alias = each.asname or each.name.partition(".")[0]
                found[alias] = Foreign(each.name, None, alias)
        return found
    base = statement.module or ""
    if statement.level:
        parts = module.split(".")[: None if is_package else -1]
        parts = parts[: len(parts) - statement.level + 1]
        base = ".".join([*parts, *([base] if base else [])])
    for each in statement.names:
        alias = each.asname or each.name
        if base == "__future__":
            continue
        found[alias] = Imported(base, each.name) if _is_ours(base) else Foreign(base, each.name, alias)
    return found


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == PROJECT


def followed(target: Target) -> Symbol | Foreign | Module:
    """What a name stands for in the end, through any number of imports."""
    while isinstance(target, Imported):
        target = member(target.module, target.name)
    return target


def member(module: str, name: str) -> Target:
    """What `module.name` is.

    Raises:
        NotFlat: the module has no such name that could be read.
    """
    target = source_of(module).bindings.get(name)
    if target is not None:
        return target
    if source_of(module).is_package and importlib.util.find_spec(f"{module}.{name}") is not None:
        return Module(f"{module}.{name}")
    raise NotFlat(f"{module} has no {name} that can be read from its file")


@dataclasses.dataclass(frozen=True)
class Edit:
    """A part of a module's text, from (line, column) to (line, column), and what stands there instead."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str | Symbol


@dataclasses.dataclass
class Definition:
    """A top-level statement of a module, and what has to change in it.

    Attributes:
        names: what it defines.
        local: every name that some scope in it has of its own: what it refers to must not be called so.
    """

    source: Source
    statement: ast.stmt
    names: tuple[str, ...]
    needs: list[Symbol] = dataclasses.field(default_factory=list)
    imports: set[Foreign] = dataclasses.field(default_factory=set)
    local: set[str] = dataclasses.field(default_factory=set)
    edits: list[Edit] = dataclasses.field(default_factory=list)

    def text(self, names: Mapping[Symbol, str]) -> str:
        """Its source with everything called as `names` says."""
        node = self.statement
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorators)])
        lines = list(self.source.lines[first - 1 : node.end_lineno])
        for edit in sorted(self.edits, key=lambda edit: (edit.start, edit.end), reverse=True):
            (top, left), (bottom, right) = edit.start, edit.end
            new = names[edit.text] if isinstance(edit.text, Symbol) else edit.text
            before, after = lines[top - first][:left], lines[bottom - first][right:]
            lines[top - first : bottom - first + 1] = [before + new.encode() + after]
        return "".join(line.decode() for line in lines if line.strip() or line == b"\n").strip("\n")


class Reader:
    """Finds in a definition what it refers to and what must change in it."""

    def __init__(self, definition: Definition, stand_ins: Mapping[Symbol, Source], known: Known) -> None:
        self.definition = definition
        self.stand_ins = stand_ins
        self.known = known
        self.source = definition.source
        self.scopes: list[Scope] = []

    def read(self) -> None:
        """Read the whole definition."""
        self.visit(self.definition.statement)

    def visit(self, node: ast.AST) -> None:
        """Read a node in the present scopes."""
        method = getattr(self, f"visit_{type(node).__name__}", None)
        if method is not None:
            method(node)
        else:
            self.visit_all(ast.iter_child_nodes(node))

    def visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        """Read nodes in the present scopes."""
        for node in nodes:
            if node is not None:
                self.visit(node)

    def find(self, name: str) -> Symbol | Foreign | Module | None:
        """What a name stands for here; None for a local, a builtin or an unknown one."""
        target = next((scope[name] for scope in reversed(self.scopes) if name in scope), ...)
        if target is ...:
            target = self.source.bindings.get(name)
        return None if target is None else followed(target)

    def within(self, scope: Scope, nodes: Iterable[ast.AST | None]) -> None:
        """Read nodes in one scope more."""
        self.scopes.append(scope)
        self.definition.local.update(scope)
        self.visit_all(nodes)
        self.scopes.pop()

    def replace(self, node: Any, text: str | Symbol) -> None:
        """Put another text where `node` stands."""
        self.definition.edits.append(Edit((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), text))

    def refer(self, node: ast.AST, target: Symbol | Foreign | Module) -> None:
        """Let `node` refer to what is `target`."""
        if isinstance(target, Symbol):
            if target in self.stand_ins:
                target = Symbol(self.stand_ins[target].name, target.name)
            self.definition.needs.append(target)
            self.replace(node, target)
        elif isinstance(target, Foreign):
            self.definition.imports.add(target)
        else:
            raise NotFlat(f"{self.source.name} uses the module {target.name} as a value")

    def visit_Name(self, node: ast.Name) -> None:
        target = self.find(node.id)
        if target is not None:
            self.refer(node, target)
        elif node.id in _OF_THE_FILE:
            raise NotFlat(f"{self.source.name} uses its {node.id}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        target = self.chain(node)
        if target is None:
            self.visit(node.value)
        elif isinstance(target, Foreign):
            # Reached through a module of ours: it gets the name by which that module imports it.
            self.definition.imports.add(target)
            self.replace(node, target.alias)
        else:
            self.refer(node, target)

    def chain(self, node: ast.expr) -> Symbol | Foreign | Module | None:
        """What `a.b.c` stands for when it leads through modules of this project."""
        if isinstance(node, ast.Name):
            found = self.find(node.id)
            return found if isinstance(found, Module) else None
        if isinstance(node, ast.Attribute) and isinstance(base := self.chain(node.value), Module):
            return followed(member(base.name, node.attr))
        return None

    def visit_If(self, node: ast.If) -> None:
        truth = self.known.truth(node.test)
        self.visit(node.test)
        if truth is False:
            self.strike(node.body, _ELSEWHERE)
        else:
            self.visit_all(node.body)
        if truth is True and node.orelse:
            first = node.orelse[0]
            line = self.source.lines[first.lineno - 1]
            is_elif = line[first.col_offset :].startswith(b"elif")
            self.strike(node.orelse, "" if is_elif else _ELSEWHERE)
        else:
            self.visit_all(node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        truth = self.known.truth(node.test)
        live = node.body if truth else node.orelse
        # Where the live part is in parentheses of its own, they are no part of its position.
        if truth is None or (_start(live) != _start(node) if truth else _end(live) != _end(node)):
            self.visit_all([node.test, node.body, node.orelse])
            return
        self.visit(live)
        if truth:
            self.definition.edits.append(Edit(_end(live), _end(node), ""))
        else:
            self.definition.edits.append(Edit(_start(node), _start(live), ""))

    def visit_block(self, statements: Sequence[ast.stmt]) -> None:
        """A function's statements, as far as they can be reached."""
        for number, statement in enumerate(statements):
            self.visit(statement)
            if (
                isinstance(statement, ast.If)
                and isinstance(statement.body[-1], ast.Return | ast.Raise)
                and self.known.truth(statement.test)
            ):
                self.strike(statements[number + 1 :], "")
                return

    def strike(self, statements: Sequence[ast.stmt], text: str) -> None:
        """Put `text` in the place of statements."""
        if statements:
            self.definition.edits.append(Edit(_start(statements[0]), _end(statements[-1]), text))

    def visit_Dict(self, node: ast.Dict) -> None:
        words = self.known.words
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        large = not self.scopes and (node.end_lineno or 0) - node.lineno >= _LARGE
        if words is None or not large or not all(isinstance(key, str) for key in keys) or not set(keys) & set(words):
            self.visit_all([*node.keys, *node.values])
            return
        ends = [*(_start(key) for key in node.keys[1:] if key), (node.end_lineno or 0, (node.end_col_offset or 1) - 1)]
        for key, value, end in zip(node.keys, node.values, ends, strict=True):
            assert isinstance(key, ast.Constant)
            if key.value in words:
                self.visit(value)
            else:
                self.definition.edits.append(Edit(_start(key), end, ""))

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and (found := _NAMES_A_MODULE.search(node.value)):
            raise NotFlat(f"{self.source.name} names {found[0]} in a text")

    def visit_Expr(self, node: ast.Expr) -> None:
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            self.visit(node.value)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        targets = imported(node, self.source.name).values()
        ours = [not isinstance(target, Foreign) for target in targets]
        if any(ours):
            if not all(ours):
                raise NotFlat(f"{self.source.name} imports from here and elsewhere in one statement")
            self.replace(node, "")

    visit_ImportFrom = visit_Import

    def visit_Global(self, node: ast.Global) -> None:
        raise NotFlat(f"{self.source.name} changes its global {', '.join(node.names)}")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and not self.in_class():
            self.definition.edits.append(Edit(_end(node.target), _end(node.annotation), ""))
            self.visit_all([node.target, node.value])
        elif self.in_class():
            self.visit_all([node.annotation, node.value])

    def in_class(self) -> bool:
        """Whether the present statement is one of a class's body."""
        return bool(self.scopes) and isinstance(self.scopes[-1], ClassScope)

    def visit_FunctionDef(self, node: Function) -> None:
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(called, ast.Name) and self.find(called.id) == Symbol(f"{PROJECT}.case", "case"):
                whole = Edit((decorator.lineno, 0), (decorator.end_lineno or 0, decorator.end_col_offset or 0), "")
                self.definition.edits.append(whole)
            else:
                self.visit(decorator)
        self.visit_all([*node.args.defaults, *node.args.kw_defaults])
        for argument in _arguments(node.args):
            if argument.annotation is not None:
                self.replace(argument, argument.arg)
        if node.returns is not None:
            self.strip_returns(node)
        if not self.scopes:
            self.name_defined(node)
        scope = _scope_of(node, self.source.name)
        self.scopes.append(scope)
        self.definition.local.update(scope)
        self.visit_block(node.body)
        self.scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def strip_returns(self, node: Function) -> None:
        """Take ` -> annotation` away."""
        assert node.returns is not None
        line = self.source.lines[node.returns.lineno - 1]
        arrow = line.rfind(b"->", 0, node.returns.col_offset)
        if arrow < 0:
            raise NotFlat(f"{self.source.name}: the result of {node.name} is annotated over several lines")
        start = len(line[:arrow].rstrip())
        self.definition.edits.append(Edit((node.returns.lineno, start), _end(node.returns), ""))

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_all([*node.args.defaults, *node.args.kw_defaults])
        self.within(dict.fromkeys(argument.arg for argument in _arguments(node.args)), [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.visit_all([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)])
        if not self.scopes:
            self.name_defined(node)
        names = ClassScope(dict.fromkeys(_bound_in(node.body)))
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.visit_method(statement)
            else:
                self.within(names, [statement])

    def visit_method(self, node: Function) -> None:
        """A method does not see the names of its class."""
        self.scopes.append({})
        self.visit(node)
        self.scopes.pop()

    def name_defined(self, node: Function | ast.ClassDef) -> None:
        """Call a top-level function or class as it will be called."""
        line = self.source.lines[node.lineno - 1]
        at = line.index(
            node.name.encode(), node.col_offset + len(b"class" if isinstance(node, ast.ClassDef) else b"def")
        )
        end = at + len(node.name.encode())
        symbol = Symbol(self.source.name, node.name)
        self.definition.edits.append(Edit((node.lineno, at), (node.lineno, end), symbol))

    def visit_ListComp(self, node: Comprehension) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        bound = {name for each in node.generators for name in _stored([each.target])}
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        rest = [part for each in others for part in (each.iter, *each.ifs)]
        self.within(dict.fromkeys(bound), [*elements, *first.ifs, *rest])

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp


@functools.cache
def _scope_of(node: Function, module: str) -> Scope:
    """What the own names of a function of `module` stand for."""
    scope: dict[str, Target | None] = dict.fromkeys(argument.arg for argument in _arguments(node.args))
    scope.update(dict.fromkeys(_bound_in(node.body)))
    for statement in _own(node.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for name, target in imported(statement, module).items():
                scope[name] = None if isinstance(target, Foreign) else target
    return scope


class ClassScope(dict[str, Target | None]):
    """The scope of a class's body."""


def _start(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: Any) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    several = [arguments.vararg, arguments.kwarg]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *(each for each in several if each)]


def _own(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All nodes that belong to the same scope, the heads of inner scopes included."""
    for node in nodes:
        yield node
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda | Comprehension):
            yield from _own(list(ast.iter_child_nodes(node)))


def _stored(nodes: Sequence[ast.AST]) -> set[str]:
    return {each.id for each in _own(nodes) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _bound_in(statements: Sequence[ast.stmt]) -> set[str]:
    """The names that statements bind in their own scope."""
    found = _stored(statements)
    for node in _own(statements):
        if isinstance(node, Function | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(each.asname or each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
    return found


@functools.cache
def _defined_by(statement: ast.stmt) -> tuple[str, ...]:
    return tuple(sorted(_bound_in([statement])))


@dataclasses.dataclass(frozen=True)
class Flat:
    """The result.

    Attributes:
        imports: import statements, sorted.
        definitions: the texts of all definitions, each after those that it needs.
        names: what the symbols are called now.
        words: all texts in the definitions but the keys of tables at their top, and but stand-ins.
    """

    imports: tuple[str, ...]
    definitions: tuple[str, ...]
    names: Mapping[Symbol, str]
    words: frozenset[str]


@functools.cache
def _texts_in(statement: ast.stmt) -> frozenset[str]:
    value = getattr(statement, "value", None)
    keys = {id(key) for key in value.keys} if isinstance(value, ast.Dict) else set()
    texts = (node for node in ast.walk(statement) if isinstance(node, ast.Constant) and id(node) not in keys)
    return frozenset(node.value for node in texts if isinstance(node.value, str))


def flatten(
    roots: Sequence[Symbol],
    stand_ins: Mapping[Symbol, Source],
    known: Mapping[Symbol, Known] | None = None,
    taken: Iterable[str] = (),
    elsewhere: Known = NOTHING,
) -> Flat:
    """The definitions that `roots` need, and they themselves.

    Args:
        stand_ins: modules that define some symbols anew, those that look things up at run time.
        known: what decides which branches of a root are left out.
        elsewhere: the same for all other definitions.
        taken: names that nothing may have.

    Raises:
        NotFlat: something in them needs this project to be there.
    """
    written = {source.name: source for source in stand_ins.values()}
    order: list[Definition] = []
    done: dict[tuple[str, int], Definition] = {}

    def include(symbol: Symbol) -> None:
        source = written.get(symbol.module) or source_of(symbol.module)
        if symbol.name not in source.statements:
            raise NotFlat(f"{symbol.module} defines no {symbol.name} by itself")
        for statement in source.statements[symbol.name]:
            key = (symbol.module, statement.lineno)
            if key in done:
                continue
            definition = Definition(source, statement, _defined_by(statement))
            done[key] = definition
            Reader(definition, stand_ins, (known or {}).get(symbol, elsewhere)).read()
            for need in dict.fromkeys(definition.needs):
                include(need)
            order.append(definition)

    for root in roots:
        include(root)
    imports = {each for definition in order for each in definition.imports}
    names = _names(order, roots, imports, taken)
    texts = []
    for definition in order:
        text = definition.text(names)
        ast.parse(text)
        texts.append(text)
    theirs = [each.statement for each in order if each.source.name not in written]
    words = frozenset(text for statement in theirs for text in _texts_in(statement))
    return Flat(import_statements(imports), tuple(texts), names, words)


def import_statements(imports: Iterable[Foreign]) -> tuple[str, ...]:
    """One statement a module, those without `from` first, sorted."""
    whole = sorted(each.statement for each in imports if each.name is None)
    parts: dict[str, set[str]] = {}
    for each in imports:
        if each.name is not None:
            parts.setdefault(each.module, set()).add(each.statement.partition(" import ")[2])
    return (*whole, *(f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(parts.items())))


def _names(
    order: Sequence[Definition], roots: Sequence[Symbol], imports: set[Foreign], taken: Iterable[str]
) -> dict[Symbol, str]:
    aliases: dict[str, list[Foreign]] = {}
    for each in imports:
        aliases.setdefault(each.alias, []).append(each)
    for alias, several in aliases.items():
        # `import torch` and `import torch.distributed` bring the same name for the same module.
        if len(several) > 1 and any(each.name or each.module.partition(".")[0] != alias for each in several):
            raise NotFlat(f"two imports bring one name: {'; '.join(sorted(each.statement for each in several))}")
    used: set[str] = {*aliases, *taken, *dir(builtins)}
    hidden: dict[Symbol, set[str]] = {}
    for definition in order:
        for need in definition.needs:
            hidden.setdefault(need, set()).update(definition.local)
    symbols = [Symbol(each.source.name, name) for each in order for name in each.names]
    names: dict[Symbol, str] = {}
    for symbol in sorted(dict.fromkeys(symbols), key=lambda symbol: (symbol not in roots, symbols.index(symbol))):
        prefix = symbol.module.rpartition(".")[2].removeprefix("test_")
        bare = symbol.name.lstrip("_") or symbol.name
        candidates = [symbol.name, f"{prefix}_{bare}", *(f"{prefix}_{bare}_{number}" for number in range(2, 9))]
        for name in candidates:
            if name not in used and name not in hidden.get(symbol, set()):
                break
        else:
            raise NotFlat(f"no free name for {symbol.module}.{symbol.name}")
        names[symbol] = name
        used.add(name)
    return names
