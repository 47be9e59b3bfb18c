"""Assignments that tracing would lose, found in a kernel's source before it is traced.

A traced ``if`` or loop runs once while the kernel is built. A Python name that holds a number or an expression and is
assigned again inside such a block is not a variable of the kernel: the assignment takes effect at build time, on every
path, and the condition is dropped. Only ``T.alloc_var`` makes a variable.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import ImmutableName, PipelineError
from .source import FunctionSource, captured_values, function_source

_TRACING_DECORATORS = ("prim_func", "macro")
_STATIC_ATTRIBUTES = ("shape", "dtype", "strides", "scope", "name", "ndim")
_TRACED_CALLS = ("dynamic", "symbolic", "get_thread_binding", "get_block_binding", "Kernel", "get_warp_idx")
_CONTAINERS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.Lambda, ast.JoinedStr)


def lint_function(function: Callable[..., Any], *, traced: bool, values: Mapping[str, object] | None = None) -> None:
    """Check the traced functions in the source of ``function``; nothing is checked when Python kept no source.

    Args:
        function: a factory, or the traced function itself (known by its ``T.Kernel`` outside any inner function).
        traced: ``function`` surely is itself traced.
        values: what names of the enclosing scope are bound to; by default what ``function`` captured.

    Raises:
        ImmutableName: an assignment inside a traced block would be lost.
        PipelineError: ``T.Pipelined`` with a negative ``num_stages``, which TileLang takes for none.
    """
    source = function_source(function)
    if source is None:
        return
    depths = _checked(source, traced)
    if depths:
        _check_stages(depths, source, captured_values(function) if values is None else values)


@functools.lru_cache(maxsize=512)
def _checked(source: FunctionSource, traced: bool) -> tuple[ast.expr, ...]:
    """Check the assignments, once a source; the pipeline depths found, which depend on captured values."""
    outer = _symbolic_names(source.tree)
    depths: list[ast.expr] = []
    for node in [source.tree] if traced else _traced_functions(source.tree):
        if _assigns_twice(node):
            _Body(source).function(node, outer)
        depths.extend(_depths(node))
    return tuple(depths)


def _assigns_twice(tree: ast.FunctionDef) -> bool:
    """Whether any name is assigned more than once; a kernel without such a name, as most are, can lose nothing."""
    seen: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            return True
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            names = _stored(node)
            if names & seen:
                return True
            seen |= names
    return False


def _traced_functions(tree: ast.FunctionDef) -> list[ast.FunctionDef]:
    """The functions in a factory that are traced, or the function itself when it launches the kernel (eager style)."""
    inner = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node is not tree]
    found = [node for node in inner if any(map(_is_tracing, node.decorator_list))]
    launches = any(_called(node) == "Kernel" for node in ast.walk(tree))
    return found or ([tree] if launches else [])


def _is_tracing(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    return name in _TRACING_DECORATORS


def _symbolic_names(tree: ast.FunctionDef) -> set[str]:
    """Names of the factory bound to symbolic shape variables."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _called(node.value) in ("dynamic", "symbolic"):
            found.update(name for target in node.targets for name in _names(target))
    return found


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _names(target: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def _depths(tree: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if _called(node) == "Pipelined" and isinstance(node, ast.Call):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "num_stages")


def _check_stages(depths: tuple[ast.expr, ...], source: FunctionSource, values: Mapping[str, object]) -> None:
    for node in depths:
        depth = _constant(node, values)
        if isinstance(depth, int) and depth < 0:
            raise PipelineError(
                f"num_stages = {depth} is no pipeline depth", span=source.span(node),
                remedy="use 0 for no pipeline, 2 or more to overlap copies with compute",
            )  # fmt: skip


def _constant(node: ast.expr, values: Mapping[str, object]) -> object:
    if isinstance(node, ast.Name):
        return values.get(node.id)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _loads(node: ast.AST | None) -> set[str]:
    if node is None:
        return set()
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def _stored(stmt: ast.stmt) -> set[str]:
    """Plain names a simple statement assigns."""
    targets: list[ast.expr] = []
    if isinstance(stmt, ast.Assign):
        targets = stmt.targets
    elif isinstance(stmt, ast.AnnAssign) and stmt.value is not None:
        targets = [stmt.target]
    elements = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return {part.id for part in elements if isinstance(part, ast.Name)}


def live_before(stmts: list[ast.stmt], after: set[str]) -> set[str]:
    """Names that are read before they are assigned when ``stmts`` run and then ``after`` is read."""
    live = set(after)
    for stmt in reversed(stmts):
        live = _live(stmt, live)
    return live


def _live(stmt: ast.stmt, after: set[str]) -> set[str]:
    if isinstance(stmt, ast.If):
        return _loads(stmt.test) | live_before(stmt.body, after) | live_before(stmt.orelse, after)
    if isinstance(stmt, (ast.For, ast.While)):
        again = after | live_before(stmt.body, after)
        head = stmt.iter if isinstance(stmt, ast.For) else stmt.test
        own = set(_names(stmt.target)) if isinstance(stmt, ast.For) else set()
        return after | _loads(head) | (live_before(stmt.body, again) - own)
    if isinstance(stmt, ast.With):
        own = {name for item in stmt.items if item.optional_vars for name in _names(item.optional_vars)}
        return {name for item in stmt.items for name in _loads(item.context_expr)} | (
            live_before(stmt.body, after) - own
        )
    return (
        (after - _stored(stmt)) | _loads(stmt) | (_names_set(stmt.target) if isinstance(stmt, ast.AugAssign) else set())
    )


def _device_arguments(node: ast.FunctionDef) -> set[str]:
    """The parameters that depend on the device: all of a ``prim_func``; in eager style the declared and the indexed."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    if any(map(_is_tracing, node.decorator_list)):
        return {arg.arg for arg in arguments}
    declared = {
        stmt.target.id
        for stmt in ast.walk(node)
        if isinstance(stmt, ast.AnnAssign) and stmt.value is None and isinstance(stmt.target, ast.Name)
    }
    indexed = {
        node.value.id for node in ast.walk(node) if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    }
    return {arg.arg for arg in arguments if arg.arg in declared | indexed or _is_device_type(arg.annotation)}


def _is_device_type(annotation: ast.expr | None) -> bool:
    text = "" if annotation is None else ast.unparse(annotation).strip("'\"")
    return text.startswith("T.") and text != "T.dtype"


def _names_set(node: ast.AST) -> set[str]:
    return set(_names(node))


@dataclass
class _Body:
    """Walks one traced function.

    ``numbers`` are names that hold a number or an expression, ``variables`` may be variables of the kernel, ``traced``
    depend on the device.
    """

    source: FunctionSource
    numbers: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    traced: set[str] = field(default_factory=set)

    def function(self, node: ast.FunctionDef, outer: set[str]) -> None:
        """Check a function whose enclosing scope holds the symbolic names ``outer``."""
        self.traced = outer | _device_arguments(node)
        self.block(node.body, set())

    def block(self, stmts: list[ast.stmt], after: set[str]) -> None:
        """Check statements, ``after`` being the names read later."""
        for index, stmt in enumerate(stmts):
            self.statement(stmt, live_before(stmts[index + 1 :], after))

    def statement(self, stmt: ast.stmt, after: set[str]) -> None:
        """Check one statement."""
        if isinstance(stmt, ast.If):
            if self.is_traced(stmt.test):
                self.refuse_lost([*stmt.body, *stmt.orelse], after)
            self.block(stmt.body, after)
            self.block(stmt.orelse, after)
        elif isinstance(stmt, (ast.For, ast.While)):
            self.loop(stmt, after)
        elif isinstance(stmt, ast.With):
            for item in stmt.items:
                if item.optional_vars is not None:
                    self.traced.update(_names(item.optional_vars))
            self.block(stmt.body, after)
        else:
            self.bind(stmt)

    def loop(self, stmt: ast.For | ast.While, after: set[str]) -> None:
        """Check a loop: what its body reads first is carried from one iteration to the next."""
        again = after | live_before(stmt.body, after)
        if isinstance(stmt, ast.For):
            traced = _called(stmt.iter) == "range" or self.is_language(stmt.iter)
            if traced:
                self.traced.update(_names(stmt.target))
                self.numbers.difference_update(_names(stmt.target))
        else:
            traced = self.is_traced(stmt.test)
        if traced:
            self.refuse_lost(stmt.body, again - (_names_set(stmt.target) if isinstance(stmt, ast.For) else set()))
        self.block(stmt.body, again)

    def refuse_lost(self, stmts: list[ast.stmt], after: set[str]) -> None:
        """Refuse an assignment in a traced block to a number bound before it and read after it."""
        for stmt in stmts:
            for node in ast.walk(stmt):
                if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                    continue
                names = _names_set(node.target) if isinstance(node, ast.AugAssign) else _stored(node)
                if isinstance(node, ast.AugAssign) and not isinstance(node.target, ast.Name):
                    continue
                for name in sorted(names & self.numbers & after):
                    raise ImmutableName(
                        f"{name!r} is bound outside this block: an assignment here happens once, at build time",
                        span=self.source.span(node),
                        remedy=f"make it a mutable scalar before the block: {name} = T.alloc_var(dtype); then assign",
                    )

    def bind(self, stmt: ast.stmt) -> None:
        """Record what a simple statement binds."""
        value = getattr(stmt, "value", None)
        if isinstance(stmt, ast.AugAssign) or not isinstance(value, ast.expr):
            return
        for name in _stored(stmt):
            if self.may_be_variable(value):
                self.variables.add(name)
            number = self.is_number(value) and name not in self.variables
            (self.numbers.add if number else self.numbers.discard)(name)
            (self.traced.add if self.is_traced(value) else self.traced.discard)(name)

    def may_be_variable(self, value: ast.expr) -> bool:
        """Whether a value may be a variable of the kernel: an allocation, or what an unknown function returned."""
        return isinstance(value, ast.Call) and (_called(value).startswith("alloc_") or not self.is_language(value))

    def is_number(self, value: ast.expr) -> bool:
        """Whether a value surely is a number or an expression, not a buffer, container or unknown object."""
        if isinstance(value, ast.Constant):
            return isinstance(value.value, (int, float))
        if isinstance(value, ast.Tuple):
            return all(map(self.is_number, value.elts))
        if isinstance(value, _CONTAINERS):
            return False
        if isinstance(value, ast.Call):
            return self.is_language(value) and self.is_traced(value)
        if isinstance(value, ast.Subscript):
            return self.is_traced(value) and not any(isinstance(part, ast.Slice) for part in ast.walk(value.slice))
        if isinstance(value, ast.Name):
            return value.id in self.numbers
        return isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Compare))

    def is_language(self, value: ast.expr) -> bool:
        """Whether a value is a call of the language module."""
        function = value.func if isinstance(value, ast.Call) else None
        return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "T"

    def is_traced(self, value: ast.AST) -> bool:
        """Whether a value depends on the device: a parameter, an index, or something computed from them."""
        if isinstance(value, ast.Attribute) and value.attr in _STATIC_ATTRIBUTES:
            return False
        if isinstance(value, ast.Name):
            return value.id in self.traced
        if _called(value) in _TRACED_CALLS or _called(value).startswith("alloc_"):
            return True
        return any(self.is_traced(child) for child in ast.iter_child_nodes(value))
