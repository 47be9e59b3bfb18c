"""Who calls whom: the functions of a kernel, and those that a call through a register may reach."""

from __future__ import annotations

import re

from .parse import Function, Module

# (results), target, (arguments), prototype or targets
CALL = re.compile(r"(?:\(([^)]*)\)\s*,\s*)?([\w$%]+)\s*(?:,\s*\(([^)]*)\))?\s*(?:,\s*([\w$%]+))?\s*$")
_CALL_STATEMENT = re.compile(r"(?:@\s*!?\s*[\w%$]+\s+)?call(?:\s*\.uni)?\s+(.*)", re.S)
_ACCESS = re.compile(r"(?:@\s*!?\s*[\w%$]+\s+)?(?:ld|st)\.")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
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
    """The kernel and every function it may call; a call through a register may reach those whose address is taken."""
    out: dict[str, Function] = {}
    waiting = [entry]
    while waiting:
        function = waiting.pop(0)
        if function.name in out:
            continue
        out[function.name] = function
        waiting += _callees(module, function)
        if _calls_indirectly(module, function):
            waiting += [module.functions[name] for name in addressed(module)]
    return tuple(out.values())


def takes_local_address(function: Function) -> bool:
    """Whether it takes the address of its ``.local`` variables: a deeper activation of it would have the same."""
    texts = [text for kind, text, _ in function.tokens if kind == "statement"]
    names = {w for text in texts if text.startswith(".local") for w in _WORD.findall(text)}
    used = (text for text in texts if text[0] != "." and not _ACCESS.match(text))
    return any(names.intersection(_WORD.findall(text)) for text in used)
