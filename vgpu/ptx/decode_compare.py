"""Decoders of ``setp set selp slct``."""

from __future__ import annotations

from .forms import Forms
from .plan import Opcode, Plan, decoder

_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_UNSIGNED_ALIAS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOLEAN = ("", "and", "or", "xor")
_FLOATS = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")
_INTEGERS = ("b16", "b32", "b64", "s16", "u16", "s32", "u32", "s64", "u64")
_REGISTER = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}
_NAMES = {
    "any": "(.eq|.ne|.lt|.le|.gt|.ge|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan)",
    "signed": "(.eq|.ne|.lt|.le|.gt|.ge)",
    "unsigned": "(.eq|.ne|.lt|.le|.gt|.ge|.lo|.ls|.hi|.hs)",
    "same": "(.eq|.ne)",
    "bool": "{.and|.or|.xor}",
}
_SETP = Forms(
    "<same><bool>(.b16|.b32|.b64)", "<signed><bool>(.s16|.s32|.s64)", "<unsigned><bool>(.u16|.u32|.u64)",
    "<any><bool>{.ftz}(.f32|.f16|.f16x2)", "<any><bool>(.f64|.bf16|.bf16x2)", **_NAMES,
)  # fmt: skip
_TO = "(.u32|.s32|.f32|.f16|.bf16)"
_SET = Forms(
    f"<same><bool>{_TO}(.b16|.b32|.b64)", f"<signed><bool>{_TO}(.s16|.s32|.s64)",
    f"<unsigned><bool>{_TO}(.u16|.u32|.u64)", "<any><bool>{.ftz}(.u32|.s32|.f32|.f16).f32",
    f"<any><bool>{_TO}.f64", "<any><bool>.bf16(.f16|.f32|.bf16)", "<any><bool>{.ftz}(.u32|.s32|.u16|.s16|.f16).f16",
    "<any><bool>(.u32|.s32|.u16|.s16).bf16", "<any><bool>{.ftz}(.u32|.s32|.f16x2).f16x2",
    "<any><bool>(.u32|.s32|.bf16x2).bf16x2", **_NAMES,
)  # fmt: skip
# The bits of true of each destination; 1.0 of a float.
_TRUE = {
    "u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF, "f32": 0x3F800000, "u16": 0xFFFF, "s16": 0xFFFF, "f16": 0x3C00,
    "bf16": 0x3F80, "f16x2": 0x3C00, "bf16x2": 0x3F80,
}  # fmt: skip
_SLCT_TYPES = (*_INTEGERS, "f32", "f64")


def _comparison(words: list[str]) -> tuple[int, int, int]:
    """Number of the comparison and of the boolean operation; flush."""
    name = _UNSIGNED_ALIAS.get(words[0], words[0])
    boolean = words[1] if words[1] in _BOOLEAN else ""
    return _COMPARE.index(name), _BOOLEAN.index(boolean), int("ftz" in words)


def _operands(first: str, t: str, boolean: int) -> tuple[str, ...]:
    register = _REGISTER.get(t, t)
    return (first, f"r:{register}", f"r:{register}", *(("r:pred",) if boolean else ()))


@decoder("setp")
def decode_setp(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Comparison into one or two predicates."""
    words = op.rest
    _SETP.take(op)
    if words[-1] in ("f16", "bf16") and shape[0] == "s|":
        raise op.refuse("writes one predicate")
    t, imms = words[-1], _comparison(words)
    handler = t if t in _FLOATS else t.replace("b", "u")
    return Plan(f"setp.{handler}", _operands("w:pred|pred", t, imms[1]), imms)


@decoder("set")
def decode_set(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Comparison into a register: all ones, or 1.0 of a float type."""
    words = op.rest
    _SET.take(op)
    to, t, imms = words[-2], words[-1], _comparison(words)
    yes = 0xFFFF if t.endswith("x2") and not to.endswith("x2") else _TRUE[to]
    handler = t if t in _FLOATS else t.replace("b", "u")
    w = "b16" if to in ("u16", "s16", "f16", "bf16") else "b32"
    return Plan(f"set.{handler}", _operands(f"w:{w}", t, imms[1]), (*imms, yes))


@decoder("selp")
def decode_selp(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Choice by a predicate."""
    t = op.next(_SLCT_TYPES)
    op.finish()
    return Plan(f"selp.{64 if t.endswith('64') else 32}", (f"w:{t}", f"r:{t}", f"r:{t}", "r:pred"))


@decoder("slct")
def decode_slct(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Choice by a sign."""
    ftz = op.flag("ftz")
    t, c = op.next(_SLCT_TYPES), op.next(("s32", "f32"))
    op.finish()
    if ftz and c != "f32":
        raise op.refuse("has .ftz with an integer selector")
    return Plan(f"slct.{64 if t.endswith('64') else 32}.{c}", (f"w:{t}", f"r:{t}", f"r:{t}", f"r:{c}"), (int(ftz),))
