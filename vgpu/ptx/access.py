"""State spaces, memory orders, scopes and cache qualifiers of memory instructions, as tables of what goes together."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import Opcode

SCOPES = ("cta", "cluster", "gpu", "sys")
SHARED = ("shared", "shared::cta", "shared::cluster")
_SPACES = {
    "": "generic",
    "global": "global",
    "const": "global",
    **dict.fromkeys(SHARED, "shared"),
    "local": "local",
    **dict.fromkeys(("param", "param::entry", "param::func"), "param"),
}
# Bytes of the types that memory instructions move.
TYPES = {
    **{f"{k}{b}": b // 8 for k in "bsu" for b in (8, 16, 32, 64)},
    "f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "f32": 4, "f64": 8, "b128": 16,
}  # fmt: skip
SPACE_NUMBER = {"global": 0, "shared": 1, "local": 2, "param": 3, "generic": 4}
_L1 = tuple(f"L1::{name}" for name in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate"))
_L2 = ("L2::64B", "L2::128B", "L2::256B")


@dataclass(frozen=True)
class Rules:
    """What a memory order goes together with (PTX ISA, "ld" and "st").

    ``spaces`` as written; ``operators`` are the cache operators, ``priorities`` whether ``.L1::`` qualifiers may be
    there, ``prefetch`` the same of prefetch sizes, ``hint`` of ``.L2::cache_hint``, ``vector`` of ``.v2`` and ``.v4``.
    """

    spaces: tuple[str, ...]
    operators: tuple[str, ...] = ()
    priorities: bool = True
    prefetch: bool = True
    hint: bool = True
    vector: bool = True


_STRONG = ("", "global", *SHARED)
_LOAD_SPACES = (*_STRONG, "const", "local", "param", "param::entry", "param::func")
_LOADS = ("ca", "cg", "cs", "lu", "cv")
_STORES = ("wb", "cg", "cs", "wt")
LOADS = {
    "": Rules(_LOAD_SPACES, _LOADS),
    "weak": Rules(_LOAD_SPACES, _LOADS),
    "nc": Rules(("global",), _LOADS),
    "volatile": Rules(_STRONG, priorities=False, hint=False),
    "relaxed": Rules(_STRONG),
    "acquire": Rules(_STRONG),
    "mmio": Rules(("", "global"), priorities=False, prefetch=False, hint=False, vector=False),
}
STORES = {
    "": Rules((*_STRONG, "local"), _STORES, prefetch=False),
    "weak": Rules((*_STRONG, "local"), _STORES, prefetch=False),
    "volatile": Rules(_STRONG, priorities=False, prefetch=False, hint=False),
    "relaxed": Rules(_STRONG, prefetch=False),
    "release": Rules(_STRONG, prefetch=False),
    "mmio": Rules(("", "global"), priorities=False, prefetch=False, hint=False, vector=False),
}


def take_order(op: Opcode, rules: dict[str, Rules]) -> str:
    """Takes memory order and scope: a key of ``rules``."""
    mmio, cached = op.flag("mmio"), "nc" in rules and op.flag("nc")
    order = op.choose((*rules, "acquire", "release", "acq_rel", "sc"), "")
    scope = op.choose(SCOPES, "")
    if mmio:
        if (order, scope) != ("relaxed", "sys"):
            raise op.refuse("has .mmio, which goes with .relaxed.sys alone")
        return "mmio"
    if order not in rules:
        raise op.refuse(f"has .{order}, which {op.root} does not take")
    if cached and order:
        raise op.refuse(f"has .nc and .{order}")
    if order in ("relaxed", "acquire", "release") and not scope:
        raise op.refuse(f"has .{order} without a scope: .{', .'.join(SCOPES)}")
    if scope and order not in ("relaxed", "acquire", "release"):
        raise op.refuse(f"has a scope .{scope} without .relaxed or another order that takes one")
    return "nc" if cached else order


def take_access(op: Opcode, rules: dict[str, Rules]) -> tuple[str, str, bool, bool]:
    """Takes order, space and cache qualifiers of a load or store.

    Returns the space as written, the engine's space, whether ``.L2::cache_hint`` is there, and whether vectors may be.
    """
    order = take_order(op, rules)
    rule = rules[order]
    written = op.choose([s for s in _SPACES if s], "")
    what = f"has .{order} and " if order else "has "
    if written not in rule.spaces:
        raise op.refuse(f"{what}{f'state space .{written}' if written else 'no state space'}")
    _take_caches(op, rule, what, written in ("", "global"))
    hint = op.flag("L2::cache_hint")
    if hint and not (rule.hint and written in ("", "global")):
        raise op.refuse(f"{what}.L2::cache_hint{'' if rule.hint else ', which do not go together'}")
    return written, _SPACES[written], hint, rule.vector


def _take_caches(op: Opcode, rule: Rules, what: str, is_global: bool) -> None:
    operator = op.choose(rule.operators, "")
    priority = op.choose(_L1, "")
    size = op.choose(_L2, "")
    if priority and (operator or not (rule.priorities and is_global)):
        raise op.refuse(f"{what}.{priority}{f' beside .{operator}' if operator else ''}")
    if size and not (rule.prefetch and is_global):
        raise op.refuse(f"{what}.{size}")


def take_space(op: Opcode, allowed: tuple[str, ...]) -> str:
    """Takes a state space that is one of ``allowed`` (\"\": generic); the engine's name of it."""
    written = op.choose([s for s in _SPACES if s], "")
    if written not in allowed:
        raise op.refuse(f"has {f'state space .{written}' if written else 'no state space'}")
    return _SPACES[written]


def take_vector(op: Opcode, shape: str) -> int:
    """Takes ``.v2``, ``.v4`` or ``.v8`` and compares it with the operand."""
    count = int(op.choose(("v2", "v4", "v8"), "v1")[1:])
    if shape[0] == "v" and int(shape[1:]) != count:
        raise op.refuse(f"has a vector of {shape[1:]} elements")
    if count > 1 and shape[0] != "v":
        raise op.refuse(f"has one register where {count} belong")
    return count
