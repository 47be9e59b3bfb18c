"""Decoder of ``cvt``."""

from __future__ import annotations

from .decode_float import ROUNDING
from .plan import Opcode, Plan, decoder

_INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
_FLOATS = ("f16", "bf16", "f32", "f64")
_PAIRS = ("f16x2", "bf16x2", "e4m3x2", "e5m2x2")
_TYPES = (*_INTEGERS, *_FLOATS, *_PAIRS, "tf32")
_MODES = {**ROUNDING, "rna": 4, "rni": 0, "rzi": 1, "rmi": 2, "rpi": 3}
_FTZ, _SAT, _RELU, _FINITE, _INTEGRAL = 1, 2, 4, 8, 16
_REGISTER = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "e4m3x2": "b16", "e5m2x2": "b16"}
_PACKED = {
    ("f16x2", "f32"), ("bf16x2", "f32"), ("e4m3x2", "f32"), ("e5m2x2", "f32"),
    ("e4m3x2", "f16x2"), ("e5m2x2", "f16x2"), ("f16x2", "e4m3x2"), ("f16x2", "e5m2x2"), ("tf32", "f32"),
}  # fmt: skip


def _flags(op: Opcode) -> int:
    names = ((_FTZ, "ftz"), (_SAT, "sat"), (_RELU, "relu"), (_FINITE, "satfinite"))
    return sum(bit for bit, name in names if op.flag(name))


@decoder("cvt")
def decode_cvt(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Conversion between any two of the integer and float types."""
    mode = op.choose(_MODES, "")
    flags = _flags(op)
    to, source = op.next(_TYPES), op.next(_TYPES)
    op.finish()
    if to in (*_PAIRS, "tf32") or source in _PAIRS:
        return _packed(op, to, source, mode, flags, shape)
    if mode == "rna" or flags & _FINITE:
        raise op.refuse("has a rounding or saturation that its types do not take")
    floats = (to in _FLOATS, source in _FLOATS)
    if not any(floats) and (mode or flags & ~_SAT):
        raise op.refuse("rounds or flushes an integer")
    if all(floats) and mode.endswith("i"):
        flags |= _INTEGRAL
    if floats == (False, True) and not mode.endswith("i"):
        raise op.refuse("needs .rni, .rzi, .rmi or .rpi")
    number = _MODES[mode] if mode else 0
    operands = (f"w:{_operand(to)}", f"r:{_operand(source)}")
    return Plan(f"cvt.{to}.{source}", operands, (0, 0, number, flags))


def _operand(t: str) -> str:
    """Any register at least as wide as the type will do; its bytes become imm 4 (destination) or 5 (source)."""
    return f"{t}?"


def _packed(op: Opcode, to: str, source: str, mode: str, flags: int, shape: tuple[str, ...]) -> Plan:
    if (to, source) not in _PACKED:
        raise op.refuse("is not a conversion of packed types")
    sources = 2 if source == "f32" and to != "tf32" else 1
    if len(shape) != sources + 1:
        raise op.refuse(f"has {len(shape)} operands")
    if mode not in ("rn", "rz", "rna") or (mode == "rna") > (to == "tf32"):
        raise op.refuse("needs a rounding mode it takes")
    if to.startswith("e") and not flags & _FINITE:
        raise op.refuse("needs .satfinite")
    if flags & (_FTZ | _SAT):
        raise op.refuse("has a modifier that its types do not take")
    w = _REGISTER.get(to, "b32")
    r = _REGISTER.get(source, source)
    return Plan(f"cvt.{to}.{source}", (f"w:{w}", *(f"r:{r}",) * sources), (0, 0, _MODES[mode], flags))
