"""Decoder of ``mma.sp`` (PTX ISA, "Matrix multiply-accumulate operation using mma.sp instruction")."""

from __future__ import annotations

from .matrix_types import ACCUMULATORS, FORMATS, STEP, accumulators_of
from .plan import Opcode, Plan

_FP8 = ("e4m3", "e5m2")


def selectors_of(a: str, chunks: int) -> int:
    """How many sparsity selectors there are: quads of lanes divided by those that hold the metadata."""
    narrow = STEP[a] >= 16
    return {1: 2 if narrow else 4, 2: 1 if narrow else 2}[chunks]


def decode_mma_sparse(op: Opcode) -> Plan:
    """``mma.sp{::ordered_metadata}.sync.aligned.shape.row.col{.satfinite}.d.a.b.c``."""
    ordered = op.next(("sp", "sp::ordered_metadata")) != "sp"
    op.next(("sync",))
    op.next(("aligned",))
    size = op.next()
    op.next(("row",))
    op.next(("col",))
    saturate = op.flag("satfinite")
    d, a, b, c = op.next(), op.next(), op.next(), op.next()
    op.finish()
    if d != c or d not in accumulators_of(a, b) or (a in _FP8 and d == "f16"):
        raise op.refuse(f"has types {d}, {a}, {b}, {c} that no sparse mma takes together")
    if saturate and d != "s32":
        raise op.refuse("has .satfinite, which needs s32 accumulators")
    legal = {f"m16n8k{2 * n * STEP[a]}": n for n in ((2,) if a in _FP8 else (1, 2))}
    if size not in legal:
        raise op.refuse(f"has shape {size}; sparse {a} takes {' and '.join(legal)}")
    chunks = legal[size]
    result = "b32*2" if d == "f16" else f"{d}*4"
    registers = f"r:b32*{2 * chunks}"
    operands = (f"w:{result}", registers, registers, f"r:{result}", "r:b32", f"imm<{selectors_of(a, chunks)}")
    imms = (FORMATS[a], FORMATS[b], ACCUMULATORS[d], chunks, int(saturate), int(ordered))
    return Plan("mma.sp", operands, imms)
