"""Decoders of ``cvt`` and ``cvt.pack``."""

from __future__ import annotations

from .decode_float import ROUNDING
from .forms import Forms
from .plan import Opcode, Plan, decoder

_INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
_PAIRS = ("f16x2", "bf16x2", "e4m3x2", "e5m2x2")
_MODES = {**ROUNDING, "rna": 4, "rni": 0, "rzi": 1, "rmi": 2, "rpi": 3}
_FLAGS = {"ftz": 1, "sat": 2, "relu": 4, "satfinite": 8}
_INTEGRAL = 16
_NAMES = {
    "R": "(.rn|.rz|.rm|.rp)",
    "Ri": "(.rni|.rzi|.rmi|.rpi)",
    "int": "(.s8|.u8|.s16|.u16|.s32|.u32|.s64|.u64)",
    "wide": "(.s16|.u16|.s32|.u32|.s64|.u64)",
    "near": "(.rn|.rz)",
    "fp8": "(.e4m3x2|.e5m2x2)",
}
_FORMS = Forms(
    "{.sat}<int><int>",
    # from and to integers
    "<Ri>{.sat}<int>(.f16|.f64)", "<Ri>{.ftz}{.sat}<int>.f32", "<Ri><wide>.bf16",
    "<R>{.sat}(.f16|.f64)<int>", "<R>{.ftz}{.sat}.f32<int>", "<R>.bf16<wide>",
    # to an integral value of the same type
    "{<Ri>}{.sat}.f16.f16", "{<Ri>}{.sat}.f64.f64", "{<Ri>}{.ftz}{.sat}.f32.f32", "{<Ri>}.bf16.bf16",
    # to a wider type: exact
    "{.ftz}{.sat}.f32.f16", "{.sat}.f64.f16", "{.ftz}{.sat}.f64.f32", "{<R>}{.ftz}.f32.bf16", "{<R>}.f64.bf16",
    # to a narrower type
    "<R>{.ftz}{.sat}.f16.f32", "<R>{.sat}.f16.f64", "<R>{.ftz}{.sat}.f32.f64", "<R>{.ftz}.bf16.f32", "<R>.bf16.f64",
    "{<R>}.f16.bf16", "{<R>}.bf16.f16",
    "<near>{.satfinite}{.relu}(.f16|.bf16|.f16x2|.bf16x2).f32", "<near>{.relu}.tf32.f32", ".rna{.satfinite}.tf32.f32",
    ".rn.satfinite{.relu}<fp8>(.f32|.f16x2)", ".rn{.relu}.f16x2<fp8>", **_NAMES,
)  # fmt: skip
_PACK = Forms(".pack.sat(.u16|.s16).s32", ".pack.sat(.u8|.s8|.u4|.s4|.u2|.s2).s32.b32")
_REGISTER = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "e4m3x2": "b16", "e5m2x2": "b16"}


def _range(t: str) -> tuple[int, int]:
    bits = int(t[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if t[0] == "s" else (0, (1 << bits) - 1)


@decoder("cvt")
def decode_cvt(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Conversion between any two of the integer and float types, and ``cvt.pack``."""
    if "pack" in op.rest:
        return _pack(op)
    words = op.rest
    _FORMS.take(op)
    mode = next((w for w in words if w in _MODES), "")
    to, source = words[-2:]
    flags = sum(bit for name, bit in _FLAGS.items() if name in words)
    if to in (*_PAIRS, "tf32") or source in _PAIRS:
        return _packed(op, (to, source), _MODES[mode], flags, shape)
    integers = (to in _INTEGERS, source in _INTEGERS)
    if all(integers) and flags:
        (low, high), (from_low, from_high) = _range(to), _range(source)
        if low <= from_low and from_high <= high:
            raise op.refuse(f"has .sat, but .{to} holds every .{source}")
    if not any(integers) and mode.endswith("i"):
        flags |= _INTEGRAL
    # Any register at least as wide as the type will do; its bytes become imm 4 (destination) or 5 (source).
    return Plan(f"cvt.{to}.{source}", (f"w:{to}?", f"r:{source}?"), (0, 0, _MODES[mode] if mode else 0, flags))


def _packed(op: Opcode, types: tuple[str, str], mode: int, flags: int, shape: tuple[str, ...]) -> Plan:
    to, source = types
    sources = 2 if source == "f32" and to != "tf32" else 1
    if len(shape) != sources + 1:
        raise op.refuse(f"has {len(shape)} operands")
    w = _REGISTER.get(to, "b32")
    r = _REGISTER.get(source, source)
    return Plan(f"cvt.{to}.{source}", (f"w:{w}", *(f"r:{r}",) * sources), (0, 0, mode, flags))


def _pack(op: Opcode) -> Plan:
    """``cvt.pack.sat.type.s32{.b32} d, a, b{, c}``: b lowest, then a, both saturated, then the low bits of c."""
    words = op.rest
    _PACK.take(op)
    t = words[2]
    merged = words[-1] == "b32"
    operands = ("w:b32", "r:s32", "r:s32", *(("r:b32",) if merged else ()))
    return Plan("cvt.pack", operands, (int(t[1:]), *_range(t)))
