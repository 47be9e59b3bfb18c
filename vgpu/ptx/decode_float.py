"""Decoders of float arithmetic: f32, f64, f16, bf16 and packed pairs, and the special functions."""

from __future__ import annotations

from .forms import Forms
from .plan import Opcode, Plan, decoder

HALVES = ("f16", "f16x2", "bf16", "bf16x2")
FLOATS = ("f32", "f64", *HALVES)
ROUNDING = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}
_REGISTER = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "f32": "f32", "f64": "f64"}
_NAMES = {"R": "(.rn|.rz|.rm|.rp)", "half": "(.f16|.f16x2)", "bfloat": "(.bf16|.bf16x2)"}
_SUM = Forms("{<R>}{.ftz}{.sat}.f32", "{<R>}.f64", "{.rn}{.ftz}{.sat}<half>", "{.rn}<bfloat>", **_NAMES)
_FMA = Forms(
    "<R>{.ftz}{.sat}.f32", "<R>.f64", ".rn{.ftz}{.sat|.relu}<half>", ".rn{.relu}<bfloat>", ".rn.oob{.relu}<half>",
    ".rn.oob{.relu}<bfloat>", **_NAMES,
)  # fmt: skip
_SIGN = Forms("{.ftz}.f32", ".f64", "{.ftz}<half>", "<bfloat>", **_NAMES)
_EXTREME = Forms(
    "{.ftz}{.NaN}{.xorsign.abs}.f32", ".f64", "{.ftz}{.NaN}{.xorsign.abs}<half>", "{.NaN}{.xorsign.abs}<bfloat>",
    **_NAMES,
)  # fmt: skip
_ROOT = Forms("(.approx|<R>){.ftz}.f32", "<R>.f64", ".approx.ftz.f64", **_NAMES)
_FUNCTION = Forms(".approx{.ftz}.f32")
_FORMS = {
    **dict.fromkeys(("add", "sub", "mul"), _SUM),
    "fma": _FMA,
    "mad": Forms("<R>{.ftz}{.sat}.f32", "<R>.f64", **_NAMES),
    **dict.fromkeys(("neg", "abs"), _SIGN),
    **dict.fromkeys(("min", "max"), _EXTREME),
    "div": Forms("(.approx|.full|<R>){.ftz}.f32", "<R>.f64", **_NAMES),
    "rcp": _ROOT,
    "sqrt": Forms("(.approx|<R>){.ftz}.f32", "<R>.f64", **_NAMES),
    "rsqrt": Forms(".approx{.ftz}.f32", ".approx{.ftz}.f64"),
    **dict.fromkeys(("sin", "cos", "lg2"), _FUNCTION),
    "ex2": Forms(".approx{.ftz}.f32", ".approx<half>", ".approx.ftz<bfloat>", **_NAMES),
    "tanh": Forms(".approx.f32", ".approx<half>", ".approx<bfloat>", **_NAMES),
}
_SOURCES = {"fma": 3, "mad": 3, **dict.fromkeys(("add", "sub", "mul", "div", "min", "max"), 2)}
_ROOTS_OF_THEIR_OWN = ("fma", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")


def is_float(op: Opcode) -> bool:
    """Whether the type of the spelling is a float."""
    return bool(op.rest) and op.rest[-1] in FLOATS


@decoder(*_ROOTS_OF_THEIR_OWN)
def decode_float_arithmetic(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Float forms of ``add sub mul div fma mad min max neg abs``, and the functions of one float.

    ``rcp``, ``sqrt``, ``rsqrt`` are correctly rounded also where they are approximate, the others rounded from double.
    """
    t = op.rest[-1] if op.rest else ""
    words = _FORMS[op.root].take(op)
    name = "fma" if op.root == "mad" else op.root
    if t == "f64" and "approx" in words and "ftz" in words:
        name += ".gross"
    extreme = op.root in ("min", "max")
    second = ("NaN" in words) + 2 * ("xorsign" in words) if extreme else int("sat" in words)
    if t in HALVES:
        third = ("relu" in words) + 2 * ("oob" in words)
    else:
        third = next((ROUNDING[w] for w in words if w in ROUNDING), 0)
    register = _REGISTER[t]
    sources = (f"r:{register}",) * _SOURCES.get(op.root, 1)
    return Plan(f"{name}.{t}", (f"w:{register}", *sources), (int("ftz" in words), second, third))


@decoder("copysign")
def decode_copysign(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Sign of the first operand on the second."""
    t = op.next(("f32", "f64"))
    op.finish()
    return Plan(f"copysign.{t}", (f"w:{t}", f"r:{t}", f"r:{t}"))


@decoder("testp")
def decode_testp(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Class of a float."""
    kinds = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    kind = kinds.index(op.next(kinds))
    t = op.next(("f32", "f64"))
    op.finish()
    return Plan(f"testp.{t}", ("w:pred", f"r:{t}"), (kind,))
