"""TIR expressions of host code as ``Expression``: one table entry a node kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import tirx

from .errors import UnsupportedHostCode
from .expression import Expression

Names = Mapping[Any, str]

_INFIX = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.FloorMod: "%",
    tirx.EQ: "==",
    tirx.NE: "!=",
    tirx.LT: "<",
    tirx.LE: "<=",
    tirx.GT: ">",
    tirx.GE: ">=",
    tirx.And: "and",
    tirx.Or: "or",
}
_CALLED = {tirx.Min: "min", tirx.Max: "max"}
_INTRINSICS = {
    "tirx.shift_left": "<<",
    "tirx.shift_right": ">>",
    "tirx.bitwise_and": "&",
    "tirx.bitwise_or": "|",
    "tirx.bitwise_xor": "^",
}


def expression_of(expr: Any, names: Names) -> Expression:
    """The expression of a TIR PrimExpr; ``names`` gives each variable's name in it.

    Raises:
        UnsupportedHostCode: the expression reads memory, calls a function, or reads a variable without a name.
    """
    return Expression.parse(_text(expr, names))


def _text(expr: Any, names: Names) -> str:
    if isinstance(expr, int | float):
        return repr(expr)
    if isinstance(expr, tirx.IntImm | tirx.FloatImm):
        return repr(expr.value)
    if isinstance(expr, tirx.Var):
        return _variable(expr, names)
    kind = type(expr)
    if kind in _INFIX:
        return f"({_text(expr.a, names)} {_INFIX[kind]} {_text(expr.b, names)})"
    if kind in _CALLED:
        return f"{_CALLED[kind]}({_text(expr.a, names)}, {_text(expr.b, names)})"
    writer = _WRITERS.get(kind)
    if writer is None:
        raise UnsupportedHostCode(f"host code computes {expr}, which no launch plan expresses")
    return writer(expr, names)


def _variable(expr: Any, names: Names) -> str:
    name = names.get(expr)
    if name is None:
        raise UnsupportedHostCode(
            f"host code uses {expr.name}, which is neither a shape variable nor a scalar argument"
        )
    return name


def _division(expr: Any, names: Names) -> str:
    a, b = _text(expr.a, names), _text(expr.b, names)
    if "float" in expr.dtype:
        return f"({a} / {b})"
    return f"truncdiv({a}, {b})"


def _modulo(expr: Any, names: Names) -> str:
    return f"truncmod({_text(expr.a, names)}, {_text(expr.b, names)})"


def _not(expr: Any, names: Names) -> str:
    return f"(not {_text(expr.a, names)})"


def _select(expr: Any, names: Names) -> str:
    return _conditional(expr.condition, expr.true_value, expr.false_value, names)


def _conditional(condition: Any, a: Any, b: Any, names: Names) -> str:
    return f"({_text(a, names)} if {_text(condition, names)} else {_text(b, names)})"


def _cast(expr: Any, names: Names) -> str:
    inner, source, target = _text(expr.value, names), str(expr.value.dtype), str(expr.dtype)
    if "float" in target:
        return inner if "float" in source else f"float({inner})"
    if target == "bool":
        return f"({inner} != 0)"
    bits = int(target.removeprefix("u").removeprefix("int"))
    if "float" in source:
        inner = f"int({inner})"
    if target.startswith("uint"):
        return f"({inner} & {(1 << bits) - 1})"
    if source.startswith("int") and int(source.removeprefix("int")) <= bits:
        return inner
    return f"wrap({inner}, {bits})"


def _call(expr: Any, names: Names) -> str:
    name = str(getattr(expr.op, "name", expr.op))
    if name in _INTRINSICS:
        return f"({_text(expr.args[0], names)} {_INTRINSICS[name]} {_text(expr.args[1], names)})"
    if name == "tirx.if_then_else":
        return _conditional(expr.args[0], expr.args[1], expr.args[2], names)
    if name == "tirx.bitwise_not":
        return f"(~{_text(expr.args[0], names)})"
    raise UnsupportedHostCode(f"host code calls {name}, which no launch plan expresses")


_WRITERS: Mapping[type, Callable[[Any, Names], str]] = {
    tirx.Div: _division,
    tirx.Mod: _modulo,
    tirx.Not: _not,
    tirx.Select: _select,
    tirx.Cast: _cast,
    tirx.Call: _call,
}
