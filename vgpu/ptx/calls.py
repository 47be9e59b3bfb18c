"""Who calls whom: the functions of a kernel, and those that a call through a register may reach."""

from __future__ import annotations

import re

from ..errors import UnsupportedInstruction
from .parse import Function, Module

# (results), target, (arguments), prototype or targets
CALL = re.compile(r"(?:\(([^)]*)\)\s*,\s*)?([\w$%]+)\s*(?:,\s*\(([^)]*)\))?\s*(?:,\s*([\w$%]+))?\s*$")
_CALL_STATEMENT = re.compile(r"(?:@\s*!?\s*[\w%$]+\s+)?call(?:\s*\.uni)?\s+(.*)", re.S)
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_MAX_CALLS = 200
CODE_WINDOW = 1 << 62  # addresses of functions lie in no window of memory
CODE_STEP = 16


def _calls(function: Function) -> list[re.Match[str]]:
    out = []
    for kind, text, _ in function.tokens:
        if kind == "statement" and "call" in text:
            m = _CALL_STATEMENT.match(text)
            c = CALL.match(m.group(1).strip()) if m is not None else None
            if c is not None:
                out.append(c)
    return out


def _callees(module: Module, function: Function) -> list[Function]:
    """The functions that it calls by name."""
    named = (module.functions.get(c.group(2)) for c in _calls(function))
    return list({f.name: f for f in named if f is not None and f.defined}.values())


def _calls_indirectly(module: Module, function: Function) -> bool:
    return any(c.group(4) is not None and c.group(2) not in module.functions for c in _calls(function))


def addressed(module: Module) -> dict[str, int]:
    """The functions whose address is taken, by a ``mov``, an initialiser or ``.calltargets``: {name: address}."""
    words: set[str] = set()
    for variable in module.variables.values():
        words.update(_WORD.findall(variable.init))
    for function in module.functions.values():
        for kind, text, _ in function.tokens:
            if kind == "statement" and ("mov" in text or text.startswith(".calltargets")):
                words.update(_WORD.findall(text))
    names = [f.name for f in module.functions.values() if f.defined and not f.entry and f.name in words]
    return {name: CODE_WINDOW + CODE_STEP * (k + 1) for k, name in enumerate(names)}


def reachable(module: Module, entry: Function) -> tuple[Function, ...]:
    """The kernel and every function it may call; a thread has one set of registers, so none may call itself.

    A call through a register may reach every function whose address is taken; a cycle of those is found when it runs.
    """
    out: dict[str, Function] = {}
    done: set[str] = set()

    def visit(function: Function, callers: tuple[str, ...]) -> None:
        if function.name in callers:
            raise UnsupportedInstruction(
                f"PTX line {function.line}: recursive call of {function.name}",
                values={"calls": " -> ".join((*callers, function.name)[-8:])},
                remedy="rewrite it as a loop: a thread of the virtual GPU has one set of registers",
            )
        if len(callers) > _MAX_CALLS:
            raise UnsupportedInstruction(f"PTX line {function.line}: calls are nested deeper than {_MAX_CALLS}")
        out[function.name] = function
        for callee in _callees(module, function):
            if callee.name not in done:
                visit(callee, (*callers, function.name))
        done.add(function.name)

    visit(entry, ())
    if any(_calls_indirectly(module, f) for f in (*out.values(), *(module.functions[n] for n in addressed(module)))):
        for name in addressed(module):
            if name not in done:
                visit(module.functions[name], ())
    return tuple(out.values())
