"""Every opcode spelling of the arithmetic, conversion and matrix families, legal or not, with operands that fit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
WIDE_INTEGERS = INTEGERS[2:]
FLOATS = ("f16", "bf16", "f32", "f64")
PACKED = ("f16x2", "bf16x2", "f32x2", "s16x2", "u16x2")
ROUND = ("", ".rn", ".rz", ".rm", ".rp")
FTZ, SAT = ("", ".ftz"), ("", ".sat")
DECLARATIONS = """.reg .pred %p<9>;
.reg .b16 %h<64>;
.reg .b32 %r<256>;
.reg .f32 %f<256>;
.reg .b64 %d<64>;
.reg .f64 %g<160>;"""


def registers(t: str, first: int, count: int = 1) -> str:
    """``count`` registers that hold type ``t``, numbered from ``first``; a vector when there is more than one."""
    bank = {"f32": "f", "f64": "g", "pred": "p"}.get(t)
    if bank is None:
        bank = "h" if t.endswith(("8", "f16", "16")) or t in ("e4m3x2", "e5m2x2") else "r"
        bank = "d" if t.endswith("64") or t == "f32x2" else bank
    names = ", ".join(f"%{bank}{first + k}" for k in range(count))
    return f"{{{names}}}" if count > 1 else names


def line(opcode: str, *operands: str) -> str:
    return f"{opcode} {', '.join(operands)};"


def plain(opcode: str, t: str, sources: int, result: str = "") -> str:
    return line(opcode, registers(result or t, 1), *(registers(t, 2 + k) for k in range(sources)))


def integer_arithmetic() -> Iterator[str]:
    types = (*WIDE_INTEGERS, "s16x2", "u16x2")
    for root, s, t in product(("add", "sub", "mul", "div", "rem", "min", "max"), ("", ".sat", ".relu", ".cc"), types):
        yield plain(f"{root}{s}.{t}", t, 2)
    for root, t in product(("abs", "neg"), types):
        yield plain(f"{root}.{t}", t, 1)
    for root, cc, t in product(("addc", "subc"), ("", ".cc", ".sat"), types):
        yield plain(f"{root}{cc}.{t}", t, 2)
    wide = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}
    for kind, sat, t in product((".lo", ".hi", ".wide", ""), SAT, WIDE_INTEGERS):
        to = wide.get(t, t) if kind == ".wide" else t
        yield plain(f"mul{kind}{sat}.{t}", t, 2, to)
        yield line(f"mad{kind}{sat}.{t}", *(registers(x, k) for k, x in enumerate((to, t, t, to))))
        yield plain(f"mul24{kind}{sat}.{t}", t, 2)
        yield plain(f"mad24{kind}{sat}.{t}", t, 3)
    for root, kind, cc, t in product(("mad", "madc"), (".lo", ".hi", ".wide"), ("", ".cc"), WIDE_INTEGERS):
        yield plain(f"{root}{kind}{cc}.{t}", t, 3)
    for t in WIDE_INTEGERS:
        yield plain(f"sad.{t}", t, 3)
    for a, b in product(("s32", "u32", "s16"), ("s32", "u32", "u8")):
        yield line(f"dp4a.{a}.{b}", "%r1", "%r2", "%r3", "%r4")
        for half in ("", ".lo", ".hi"):
            yield line(f"dp2a{half}.{a}.{b}", "%r1", "%r2", "%r3", "%r4")


def bits() -> Iterator[str]:
    bit_types = ("b16", "b32", "b64", "u32", "pred")
    for root, t in product(("and", "or", "xor"), bit_types):
        yield plain(f"{root}.{t}", t, 2)
    for root, t in product(("not", "cnot"), bit_types):
        yield plain(f"{root}.{t}", t, 1)
    for root, t in product(("shl", "shr"), ("b8", "b16", "b32", "b64", *WIDE_INTEGERS)):
        yield line(f"{root}.{t}", registers(t, 1), registers(t, 2), "%r3")
    for side, mode, t in product(("", ".l", ".r"), ("", ".clamp", ".wrap"), ("b32", "b64", "u32")):
        yield line(f"shf{side}{mode}.{t}", registers(t, 1), registers(t, 2), registers(t, 3), "%r4")
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16", ".foo"):
        yield line(f"prmt.b32{mode}", "%r1", "%r2", "%r3", "%r4")
    for t in ("b32", "b64", *WIDE_INTEGERS):
        yield line(f"bfe.{t}", registers(t, 1), registers(t, 2), "%r3", "%r4")
        yield line(f"bfi.{t}", registers(t, 1), registers(t, 2), registers(t, 3), "%r4", "%r5")
        for amount in ("", ".shiftamt"):
            yield line(f"bfind{amount}.{t}", "%r1", registers(t, 2))
        for root in ("clz", "popc"):
            yield line(f"{root}.{t}", "%r1", registers(t, 2))
        yield line(f"brev.{t}", registers(t, 1), registers(t, 2))
        yield line(f"fns.{t}", registers(t, 1), registers(t, 2), "%r3", "%r4")
        for mode in ("", ".clamp", ".wrap"):
            yield line(f"bmsk{mode}.{t}", registers(t, 1), registers(t, 2), "%r3")
            yield line(f"szext{mode}.{t}", registers(t, 1), registers(t, 2), "%r3")
    yield "lop3.b32 %r1, %r2, %r3, %r4, 0x96;"
    yield "lop3.b64 %d1, %d2, %d3, %d4, 0x96;"
    yield "lop3.b32 %r1, %r2, %r3, %r4, 256;"
    for operation in ("or", "and", "xor"):
        yield f"lop3.{operation}.b32 %r1|%p1, %r2, %r3, %r4, 0x96, %p2;"
        yield f"lop3.{operation}.b32 _|%p1, %r2, %r3, %r4, 0x96, !%p2;"


def float_arithmetic() -> Iterator[str]:
    types = (*FLOATS, *PACKED[:3])
    for root, r, z, s, t in product(("add", "sub", "mul"), ROUND, FTZ, SAT, types):
        yield plain(f"{root}{r}{z}{s}.{t}", t, 2)
    for root, r, z, s, t in product(("fma", "mad"), ROUND, FTZ, ("", ".sat", ".relu", ".oob", ".oob.relu"), types):
        yield plain(f"{root}{r}{z}{s}.{t}", t, 3)
    for root, z, t in product(("abs", "neg"), FTZ, types):
        yield plain(f"{root}{z}.{t}", t, 1)
    for root, z, n, x, t in product(("min", "max"), FTZ, ("", ".NaN"), ("", ".xorsign.abs", ".abs"), types):
        yield plain(f"{root}{z}{n}{x}.{t}", t, 2)
        yield plain(f"{root}{z}{n}{x}.{t}", t, 3)
    for r, z, t in product((*ROUND, ".approx", ".full"), FTZ, types):
        yield plain(f"div{r}{z}.{t}", t, 2)
        for root in ("rcp", "sqrt"):
            yield plain(f"{root}{r}{z}.{t}", t, 1)
    for root, a, z, t in product(("rsqrt", "sin", "cos", "lg2", "ex2", "tanh"), ("", ".approx"), FTZ, types):
        yield plain(f"{root}{a}{z}.{t}", t, 1)
    for root in ("rcp", "rsqrt"):
        yield plain(f"{root}.approx.ftz.f64", "f64", 1)
    for t in types:
        yield plain(f"copysign.{t}", t, 2)
        for kind in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield line(f"testp.{kind}.{t}", "%p1", registers(t, 2))
    # Mixed precision additions.
    for root, r, t in product(("add", "sub", "fma"), ("", ".rn"), ("f16", "bf16")):
        more = [registers(t, 4)] if root == "fma" else []
        yield line(f"{root}{r}.f32.{t}", "%f1", registers(t, 2), *more, "%f3")


def comparisons() -> Iterator[str]:
    names = ("eq", "ne", "lt", "lo", "gtu", "num", "hs")
    types = ("b16", "b32", "b64", *WIDE_INTEGERS, *FLOATS, "f16x2", "bf16x2")
    for name, boolean, z, t in product(names, ("", ".and"), FTZ, types):
        third = ["%p3"] if boolean else []
        pair = "%p1|%p2"
        yield line(f"setp.{name}{boolean}{z}.{t}", pair, registers(t, 2), registers(t, 3), *third)
        for to in ("u32", "s32", "f32", "f16", "bf16", "u16", "f16x2", "bf16x2"):
            operands = (registers(to, 1), registers(t, 2), registers(t, 3), *third)
            yield line(f"set.{name}{boolean}{z}.{to}.{t}", *operands)
    for t in types:
        yield line(f"selp.{t}", registers(t, 1), registers(t, 2), registers(t, 3), "%p1")
        for z, c in product(FTZ, ("s32", "f32", "u32", "f16")):
            yield line(f"slct{z}.{t}.{c}", registers(t, 1), registers(t, 2), registers(t, 3), registers(c, 4))


def conversions() -> Iterator[str]:
    modes = (*ROUND, ".rni", ".rzi", ".rmi", ".rpi", ".rna")
    for r, z, s, to, source in product(modes, FTZ, SAT, (*INTEGERS, *FLOATS), (*INTEGERS, *FLOATS)):
        yield line(f"cvt{r}{z}{s}.{to}.{source}", registers(to, 1), registers(source, 2))
    small = ("", ".relu", ".satfinite", ".satfinite.relu")
    rounding = ("", ".rn", ".rz", ".rna", ".rp")
    for r, s, to in product(rounding, small, ("f16", "bf16", "tf32")):
        yield line(f"cvt{r}{s}.{to}.f32", registers(to, 1), "%f2")
        if to != "tf32":
            yield line(f"cvt{r}{s}.{to}x2.f32", "%r1", "%f2", "%f3")
    fp8 = ("e4m3x2", "e5m2x2")
    for r, s, to in product(("", ".rn", ".rz"), ("", ".relu", ".satfinite", ".satfinite.relu"), fp8):
        yield line(f"cvt{r}{s}.{to}.f32", "%h1", "%f2", "%f3")
        yield line(f"cvt{r}{s}.{to}.f16x2", "%h1", "%r2")
        yield line(f"cvt{r}{s}.{to}.bf16x2", "%h1", "%r2")
        yield line(f"cvt{r}{s}.f16x2.{to}", "%r1", "%h2")
        yield line(f"cvt{r}{s}.bf16x2.{to}", "%r1", "%h2")
    for to in ("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2", "u32"):
        yield f"cvt.pack.sat.{to}.s32 %r1, %r2, %r3;"
        yield f"cvt.pack.sat.{to}.s32.b32 %r1, %r2, %r3, %r4;"
        yield f"cvt.pack.{to}.s32 %r1, %r2, %r3;"
    yield "cvt.rs.f16x2.f32 %r1, %f2, %f3, %r4;"
    yield "cvt.rs.satfinite.e4m3x4.f32 %r1, {%f1, %f2, %f3, %f4}, %r4;"
    yield "cvt.rn.satfinite.e2m3x2.f32 %h1, %f2, %f3;"
    yield "cvt.rp.satfinite.ue8m0x2.f32 %h1, %f2, %f3;"


def video() -> Iterator[str]:
    """Scalar and SIMD video instructions (PTX ISA 9.7.16 and 9.7.17)."""
    pairs = tuple(product(("s32", "u32"), repeat=2))
    for root, d, (a, b), s, op2 in product(
        ("vadd", "vsub", "vabsdiff", "vmin", "vmax"), ("s32", "u32"), pairs, SAT, ("", ".add", ".min", ".max")
    ):
        third = ["%r4"] if op2 else []
        yield line(f"{root}.{d}.{a}.{b}{s}{op2}", "%r1", "%r2.b1", "%r3.h1", *third)
    for root in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
        for sel in ("b0", "b1", "b2", "b3", "h0", "h1"):
            yield f"{root}.s32.u32.s32.sat %r1.{sel}, %r2.{sel}, %r3, %r4;"
    for root, d, a, s, mode, op2 in product(
        ("vshl", "vshr"), ("s32", "u32"), ("s32", "u32"), SAT, ("", ".clamp", ".wrap"), ("", ".add")
    ):
        yield line(f"{root}.{d}.{a}.u32{s}{mode}{op2}", "%r1", "%r2.h0", "%r3.b2", *(["%r4"] if op2 else []))
    for d, (a, b), s, scale, po in product(("s32", "u32"), pairs, SAT, ("", ".shr7", ".shr15"), ("", ".po")):
        yield f"vmad.{d}.{a}.{b}{po}{s}{scale} %r1, %r2.b1, %r3.h1, %r4;"
        yield f"vmad.{d}.{a}.{b}{po}{s}{scale} %r1, -%r2.h0, %r3, %r4;"
        yield f"vmad.{d}.{a}.{b}{po}{s}{scale} %r1, %r2, %r3, -%r4;"
    for (a, b), name, op2 in product(pairs, ("eq", "ne", "lt", "le", "gt", "ge", "num"), ("", ".add", ".max")):
        yield line(f"vset.{a}.{b}.{name}{op2}", "%r1", "%r2.b0", "%r3.b3", *(["%r4"] if op2 else []))
    for n, mask, chosen in (("2", ".h10", ".h31"), ("4", ".b3210", ".b7531")):
        for root, d, (a, b), s in product(
            ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"), ("s32", "u32"), pairs, ("", ".sat", ".add")
        ):
            yield f"{root}{n}.{d}.{a}.{b}{s} %r1{mask}, %r2{chosen}, %r3, %r4;"
            yield f"{root}{n}.{d}.{a}.{b}{s} %r1, %r2, %r3, %r4;"
        for (a, b), name, s in product(pairs, ("eq", "ne", "lt", "le", "gt", "ge"), ("", ".add")):
            yield f"vset{n}.{a}.{b}.{name}{s} %r1{mask}, %r2, %r3{chosen}, %r4;"
            yield f"vset{n}.{a}.{b}.{name}{s} %r1, %r2, %r3, %r4;"
