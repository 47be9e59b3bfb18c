"""Integer and float expressions over shape variables: Python text from a small whitelist, compiled once.

The text is ordinary Python, so a launcher may splice many expressions into one generated function (see
``compile_function``); the only names besides variables are those of ``FUNCTIONS``.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .errors import BadExpression

_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Call,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
)


def truncdiv(a: int, b: int) -> int:
    """The quotient of two integers rounded towards zero, as C divides."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def truncmod(a: int, b: int) -> int:
    """The remainder of ``truncdiv``: it has the sign of the dividend."""
    return a - truncdiv(a, b) * b


def wrap(value: int, bits: int) -> int:
    """A value converted to a signed integer of ``bits`` bits, as a C cast does."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "int": int,
    "float": float,
    "truncdiv": truncdiv,
    "truncmod": truncmod,
    "wrap": wrap,
}


@dataclass(frozen=True)
class Expression:
    """A value computed from shape variables and scalars.

    Args:
        text: Python source; operators, comparisons, ``a if c else b`` and calls of ``FUNCTIONS`` only.
        variables: the names that ``text`` reads, sorted.
    """

    text: str
    variables: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str | int | float) -> Expression:
        """The expression that a text or number denotes.

        Raises:
            BadExpression: the text is not Python, or uses anything outside the whitelist.
        """
        source = text if isinstance(text, str) else repr(text)
        return Expression(source, _variables(source))

    @property
    def constant(self) -> bool:
        """True when no variable is read."""
        return not self.variables

    def evaluate(self, **variables: int | float) -> int:
        """The value for the variables given by name; names that the text does not read are ignored.

        Raises:
            BadExpression: a variable is missing, or the arithmetic fails (division by zero).
        """
        return self.evaluate_in(variables)

    def evaluate_in(self, variables: Mapping[str, int | float]) -> int:
        """As ``evaluate``, with the variables in a mapping."""
        code = _compiled(self.text)
        try:
            value: int = eval(code, {"__builtins__": {}, **FUNCTIONS}, dict(variables))
        except (NameError, ZeroDivisionError, TypeError, OverflowError) as error:
            raise BadExpression(
                f"{self.text} cannot be evaluated: {error}",
                values={name: variables.get(name) for name in self.variables},
            ) from error
        return value

    def __str__(self) -> str:
        return self.text


def safe_name(name: str) -> str:
    """A Python identifier for a variable's name that clashes with no keyword and none of ``FUNCTIONS``."""
    cleaned = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "_"
    if cleaned[0].isdigit():
        cleaned = "_" + cleaned
    return cleaned + "_" if keyword.iskeyword(cleaned) or cleaned in FUNCTIONS else cleaned


def compile_function(
    name: str, arguments: Sequence[str], results: Iterable[Expression]
) -> Callable[..., tuple[Any, ...]]:
    """One Python function ``name(*arguments)`` that returns the values of all ``results`` as a tuple.

    Raises:
        BadExpression: an expression reads a name that is not an argument, or an argument is not an identifier.
    """
    expressions = tuple(results)
    missing = {v for e in expressions for v in e.variables} - set(arguments)
    bad = [a for a in arguments if not a.isidentifier() or keyword.iskeyword(a)]
    if missing or bad:
        raise BadExpression(f"{name}: unbound or impossible names {sorted(missing) + bad}")
    for expression in expressions:
        _variables(expression.text)
    body = "".join(f"({e.text}), " for e in expressions)
    namespace: dict[str, Any] = {"__builtins__": {}, **FUNCTIONS}
    exec(
        compile(f"def {safe_name(name)}({', '.join(arguments)}):\n    return ({body})\n", f"<{name}>", "exec"),
        namespace,
    )
    function: Callable[..., tuple[Any, ...]] = namespace[safe_name(name)]
    return function


@lru_cache(maxsize=65536)
def _variables(text: str) -> tuple[str, ...]:
    names: set[str] = set()
    for node in ast.walk(_tree(text)):
        if not isinstance(node, _NODES):
            raise BadExpression(f"{text!r}: {type(node).__name__} is not allowed in an expression")
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
                raise BadExpression(f"{text!r}: only {', '.join(FUNCTIONS)} may be called")
        elif isinstance(node, ast.Constant) and not isinstance(node.value, int | float):
            raise BadExpression(f"{text!r}: {node.value!r} is not a number")
        elif isinstance(node, ast.Name) and node.id not in FUNCTIONS:
            names.add(node.id)
    return tuple(sorted(names))


def _tree(text: str) -> ast.Expression:
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise BadExpression(f"{text!r} is not an expression: {error}") from error


@lru_cache(maxsize=65536)
def _compiled(text: str) -> Any:
    _variables(text)
    return compile(text.strip(), "<expression>", "eval")
