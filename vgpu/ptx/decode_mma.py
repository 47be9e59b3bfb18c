"""Decoder of ``mma.sync`` (PTX ISA, "Warp-level matrix instructions"), dense operands."""

from __future__ import annotations

from .decode_float import ROUNDING
from .decode_mma_sparse import decode_mma_sparse
from .matrix_types import ACCUMULATORS, FORMATS, STEP, accumulators_of
from .plan import Opcode, Plan, decoder

_F64_SHAPES = {"m8n8k4": (8, 4), "m16n8k4": (16, 4), "m16n8k8": (16, 8), "m16n8k16": (16, 16)}
_B1_SHAPES = {"m8n8k128": (8, 1), "m16n8k128": (16, 1), "m16n8k256": (16, 2)}  # rows, 16-byte steps of k
_QUAD_RESULTS = {"f16": "b32*4", "f32": "f32*8"}


@decoder("mma")
def decode_mma(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """``mma.sync.aligned.shape.alayout.blayout{.satfinite}{.rnd}.d.a.b.c{.op.popc}``, or sparse."""
    if op.rest and op.rest[0].startswith("sp"):
        return decode_mma_sparse(op)
    op.next(("sync",))
    op.next(("aligned",))
    size = op.next()
    quads = size == "m8n8k4" and op.rest[-3:-1] == ["f16", "f16"]
    layouts = [op.next(("row", "col") if quads else (layout,)) for layout in ("row", "col")]
    saturate = op.flag("satfinite")
    rounding = op.choose(ROUNDING, "") if "f64" in op.rest else ""
    d, a, b, c = op.next(), op.next(), op.next(), op.next()
    if quads:
        return _decode_quads(op, layouts, d, c)
    if a == "f64":
        return _decode_f64(op, size, (d, b, c), rounding)
    if a == "b1":
        return _decode_b1(op, size, (d, b, c))
    op.finish()
    if d != c or d not in accumulators_of(a, b):
        raise op.refuse(f"has types {d}, {a}, {b}, {c} that no mma takes together")
    if saturate and d != "s32":
        raise op.refuse("has .satfinite, which needs s32 accumulators")
    if d == "s32" and size == f"m8n8k{STEP[a]}":
        imms = (FORMATS[a], FORMATS[b], ACCUMULATORS[d], 1, int(saturate))
        return Plan("mma.eight", ("w:s32*2", "r:b32*1", "r:b32*1", "r:s32*2"), imms)
    chunks = next((n for n in (1, 2) if size == f"m16n8k{n * STEP[a]}"), None)
    if chunks is None:
        small = f"m8n8k{STEP[a]}, " if d == "s32" else ""
        raise op.refuse(f"has shape {size}; {a} takes {small}m16n8k{STEP[a]} and m16n8k{2 * STEP[a]}")
    result = "b32*2" if d == "f16" else f"{d}*4"
    operands = (f"w:{result}", f"r:b32*{2 * chunks}", f"r:b32*{chunks}", f"r:{result}")
    return Plan("mma.sync", operands, (FORMATS[a], FORMATS[b], ACCUMULATORS[d], chunks, int(saturate)))


def _decode_quads(op: Opcode, layouts: list[str], d: str, c: str) -> Plan:
    """``m8n8k4`` on f16: four products, one of each pair of quads."""
    op.finish()
    if (d, c) not in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")):
        raise op.refuse(f"has types {d}, f16, f16, {c} that no mma takes together")
    by_columns = [int(layout == "col") for layout in layouts]
    operands = (f"w:{_QUAD_RESULTS[d]}", "r:b32*2", "r:b32*2", f"r:{_QUAD_RESULTS[c]}")
    return Plan("mma.quad", operands, (*by_columns, int(c == "f32"), int(d == "f32")))


def _decode_f64(op: Opcode, size: str, types: tuple[str, str, str], rounding: str) -> Plan:
    op.finish()
    if size not in _F64_SHAPES or types != ("f64", "f64", "f64"):
        raise op.refuse(f"has shape {size} or types that no f64 mma takes")
    rows, depth = _F64_SHAPES[size]
    steps = depth // 4
    result = f"f64*{rows // 4}"
    operands = (f"w:{result}", f"r:f64*{steps * rows // 8}", f"r:f64*{steps}", f"r:{result}")
    return Plan("mma.f64", operands, (rows, depth, ROUNDING[rounding or "rn"]))


def _decode_b1(op: Opcode, size: str, types: tuple[str, str, str]) -> Plan:
    conjunction = op.next(("and", "xor")) == "and"
    op.next(("popc",))
    op.finish()
    if size not in _B1_SHAPES or types != ("s32", "b1", "s32"):
        raise op.refuse(f"has shape {size} or types that no single-bit mma takes")
    rows, chunks = _B1_SHAPES[size]
    factor = rows // 8
    operands = (f"w:s32*{2 * factor}", f"r:b32*{factor * chunks}", f"r:b32*{chunks}", f"r:s32*{2 * factor}")
    return Plan("mma.b1", operands, (chunks, int(conjunction), rows))
