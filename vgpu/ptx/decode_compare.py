"""Decoders of ``setp set selp slct``."""

from __future__ import annotations

from .plan import Opcode, Plan, decoder

_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_UNSIGNED_ALIAS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOLEAN = ("", "and", "or", "xor")
_FLOATS = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")
_INTEGERS = ("b16", "b32", "b64", "s16", "u16", "s32", "u32", "s64", "u64")
_REGISTER = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}


def _comparison(op: Opcode, t: str) -> tuple[int, int, int]:
    """(comparison, boolean operation, flush) with the modifiers taken."""
    name = op.next((*_COMPARE, *_UNSIGNED_ALIAS))
    if t not in _FLOATS and name in _COMPARE[6:]:
        raise op.refuse(f"has .{name} with an integer type")
    if name in _UNSIGNED_ALIAS and t[0] != "u":
        raise op.refuse(f"has .{name} without an unsigned type")
    if t[0] == "b" and t not in _FLOATS and name not in ("eq", "ne"):
        raise op.refuse(f"has .{name} with an untyped operand")
    boolean = op.choose(_BOOLEAN[1:], "")
    ftz = op.flag("ftz")
    return _COMPARE.index(_UNSIGNED_ALIAS.get(name, name)), _BOOLEAN.index(boolean), int(ftz)


@decoder("setp")
def decode_setp(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Comparison into one or two predicates."""
    t = op.rest.pop() if op.rest and op.rest[-1] in (*_FLOATS, *_INTEGERS) else ""
    if not t:
        raise op.refuse("needs a type")
    imms = _comparison(op, t)
    op.finish()
    register = _REGISTER.get(t, t)
    handler = t if t in _FLOATS else t.replace("b", "u")
    third = ("r:pred",) if imms[1] else ()
    return Plan(f"setp.{handler}", ("w:pred|pred", f"r:{register}", f"r:{register}", *third), imms)


@decoder("set")
def decode_set(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Comparison into a register: all ones, or 1.0 of a float type."""
    if len(op.rest) < 3:
        raise op.refuse("needs two types")
    t = op.rest.pop()
    to = op.rest.pop()
    ones = {"u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF, "f32": 0x3F800000, "u16": 0xFFFF, "s16": 0xFFFF}
    ones |= {"f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C00, "bf16x2": 0x3F80}
    if t not in (*_FLOATS, *_INTEGERS) or to not in ones:
        raise op.refuse("has types that set does not take")
    imms = _comparison(op, t)
    op.finish()
    yes = 0xFFFF if t.endswith("x2") and not to.endswith("x2") else ones[to]
    register = _REGISTER.get(t, t)
    handler = t if t in _FLOATS else t.replace("b", "u")
    third = ("r:pred",) if imms[1] else ()
    w = "b16" if to in ("u16", "s16", "f16", "bf16") else "b32"
    return Plan(f"set.{handler}", (f"w:{w}", f"r:{register}", f"r:{register}", *third), (*imms, yes))


@decoder("selp")
def decode_selp(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Choice by a predicate."""
    t = op.choose((*_INTEGERS, "f32", "f64"))
    op.finish()
    return Plan(f"selp.{64 if t.endswith('64') else 32}", (f"w:{t}", f"r:{t}", f"r:{t}", "r:pred"))


@decoder("slct")
def decode_slct(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Choice by a sign."""
    ftz = op.flag("ftz")
    t, c = op.next((*_INTEGERS, "f32", "f64")), op.next(("s32", "f32"))
    op.finish()
    if ftz and c != "f32":
        raise op.refuse("has .ftz with an integer selector")
    return Plan(f"slct.{64 if t.endswith('64') else 32}.{c}", (f"w:{t}", f"r:{t}", f"r:{t}", f"r:{c}"))
