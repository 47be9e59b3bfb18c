"""Decoder of the ``wgmma`` family (PTX ISA, "Asynchronous warpgroup-level matrix instructions"), dense and sparse."""

from __future__ import annotations

from .decode_mma_sparse import selectors_of
from .matrix_types import ACCUMULATORS, FORMATS, STEP, accumulators_of
from .plan import Opcode, Plan, decoder

_FORMATS = tuple(f for f in FORMATS if f not in ("s4", "u4"))
_COLUMNS = range(8, 257, 8)
# Integer operands: N is a multiple of 16 above 32 (and 24).
_INTEGER_COLUMNS = (8, 16, 24, 32, *range(48, 257, 16))


@decoder("wgmma")
def decode_wgmma(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """``wgmma.{mma_async{.sp}, fence, commit_group, wait_group}.sync.aligned...``."""
    name = op.next(("mma_async", "fence", "commit_group", "wait_group"))
    sparse = name == "mma_async" and op.flag("sp")
    op.next(("sync",))
    op.next(("aligned",))
    if name == "mma_async":
        return _mma_async(op, shape, sparse)
    op.finish()
    return Plan(f"wgmma.{name}", ("imm",) if name == "wait_group" else ())


def _columns(op: Opcode, size: str, a: str, sparse: bool) -> int:
    head, _, depth = size.partition("k")
    columns = int(head[4:]) if head.startswith("m64n") and head[4:].isdigit() else 0
    legal = _INTEGER_COLUMNS if a in ("s8", "u8") else _COLUMNS
    wanted = STEP[a] * (4 if sparse else 2)
    if columns not in legal or depth != str(wanted):
        raise op.refuse(f"has shape {size}; {a} takes m64nNk{wanted} with N = {legal[0]} to {legal[-1]}")
    return columns


def _mma_async(op: Opcode, shape: tuple[str, ...], sparse: bool) -> Plan:
    size = op.next()
    saturate = op.flag("satfinite")
    d, a, b = op.next(ACCUMULATORS), op.next(_FORMATS), op.next(_FORMATS)
    op.finish()
    if d not in accumulators_of(a, b):
        raise op.refuse(f"has types {d}, {a}, {b} that no wgmma takes together")
    if saturate and d != "s32":
        raise op.refuse("has .satfinite, which needs s32 accumulators")
    columns = _columns(op, size, a, sparse)
    in_registers = shape[1] != "s"
    result = f"rw:b32*{columns // 4}" if d == "f16" else f"rw:{d}*{columns // 2}"
    scales = 0 if d == "s32" else 2
    transpositions = (1 if in_registers else 2) if a in ("f16", "bf16") else 0
    matrices = ("r:b32*4" if in_registers else "r:b64", "r:b64")
    metadata = ("r:b32", f"imm<{selectors_of(a, 2)}") if sparse else ()
    operands = (result, *matrices, *metadata, "r:pred", *["imm"] * (scales + transpositions))
    if len(shape) != len(operands):
        raise op.refuse(f"has {len(shape)} operands where it takes {len(operands)}")
    imms = (FORMATS[a], FORMATS[b], ACCUMULATORS[d], columns, int(in_registers), int(saturate), int(sparse))
    # With scale-d false the accumulators may hold nothing yet.
    return Plan("wgmma.mma_async", operands, imms, reads_undefined=True)
