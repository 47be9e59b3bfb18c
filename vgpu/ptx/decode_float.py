"""Decoders of float arithmetic: f32, f64, f16, bf16 and packed pairs, and the special functions."""

from __future__ import annotations

from .plan import Opcode, Plan, decoder

HALVES = ("f16", "f16x2", "bf16", "bf16x2")
FLOATS = ("f32", "f64", *HALVES)
ROUNDING = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}
_REGISTER = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "f32": "f32", "f64": "f64"}
_SOURCES = {"neg": 1, "abs": 1, "fma": 3, "mad": 3}


def is_float(op: Opcode) -> bool:
    """Whether the type of the spelling is a float."""
    return bool(op.rest) and op.rest[-1] in FLOATS


def _plan(op: Opcode, handler: str, t: str, sources: int, imms: tuple[int, int, int]) -> Plan:
    register = _REGISTER[t]
    return Plan(f"{handler}.{t}", (f"w:{register}", *(f"r:{register}",) * sources), imms)


def decode_float_arithmetic(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """``add sub mul div fma mad min max neg abs`` of float types."""
    t = op.choose(FLOATS)
    ftz = op.flag("ftz")
    sources = _SOURCES.get(op.root, 2)
    if op.root in ("min", "max"):
        nan, xorsign = op.flag("NaN"), op.flag("xorsign")
        if xorsign:
            op.choose(("abs",))
        op.finish()
        return _plan(op, op.root, t, sources, (int(ftz), int(nan) + 2 * int(xorsign), 0))
    if op.root in ("neg", "abs"):
        op.finish()
        return _plan(op, op.root, t, sources, (int(ftz), 0, 0))
    half = t in HALVES
    name = "fma" if op.root == "mad" else op.root
    sat = op.root != "div" and t != "f64" and op.flag("sat")
    if op.root == "div":
        mode = op.choose(("approx", "full", *ROUNDING))
    else:
        mode = op.choose(("rn",) if half else tuple(ROUNDING), "rn")
    relu = half and op.root == "fma" and op.flag("relu")
    op.finish()
    third = int(relu) if half else ROUNDING.get(mode, 0)
    return _plan(op, name, t, sources, (int(ftz), int(sat), third))


@decoder("fma")
def decode_fma(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Fused multiply-add."""
    return decode_float_arithmetic(op, shape)


@decoder("rcp", "sqrt", "rsqrt")
def decode_root(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Reciprocal and roots, exact or approximate (both correctly rounded here)."""
    t = op.choose(("f32", "f64"))
    mode = op.choose(("approx",) if op.root == "rsqrt" else ("approx", *ROUNDING))
    ftz = op.flag("ftz")
    op.finish()
    return _plan(op, op.root, t, 1, (int(ftz), 0, ROUNDING.get(mode, 0)))


@decoder("sin", "cos", "lg2", "ex2", "tanh")
def decode_function(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Approximate functions (rounded from double here)."""
    t = op.choose(("f32", *(HALVES if op.root in ("ex2", "tanh") else ())))
    op.choose(("approx",))
    ftz = op.flag("ftz")
    op.finish()
    # ex2.ftz.bf16 is the only spelling of bf16: it flushes subnormals.
    return _plan(op, op.root, t, 1, (int(ftz), 0, 0))


@decoder("copysign")
def decode_copysign(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Sign of the first operand on the second."""
    t = op.choose(("f32", "f64"))
    op.finish()
    return Plan(f"copysign.{t}", (f"w:{t}", f"r:{t}", f"r:{t}"))


@decoder("testp")
def decode_testp(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Class of a float."""
    kinds = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    kind = kinds.index(op.choose(kinds))
    t = op.choose(("f32", "f64"))
    op.finish()
    return Plan(f"testp.{t}", ("w:pred", f"r:{t}"), (kind,))
