"""Decoders of ``atom``, ``red`` and ``red.async``."""

from __future__ import annotations

from .access import SCOPES, SHARED, SPACE_NUMBER, TYPES, take_space, take_vector
from .decode_bulk import REDUCTION_TYPES, REDUCTIONS
from .plan import Opcode, Plan, decoder

_HALVES = ("f16", "bf16", "f16x2", "bf16x2")
_ORDERED = ("s32", "u32", "s64", "u64")
# Types of an operation on one element (PTX ISA, "atom"; the assembler has no signed 64-bit addition: .u64 is the same).
_SCALARS = {
    "add": ("s32", "u32", "u64", "f32", "f64", *_HALVES),
    "min": _ORDERED,
    "max": _ORDERED,
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64", "b128"),
    "cas": ("b16", "b32", "b64", "b128"),
}
# The same of a vector, which lies in global memory; at most 16 bytes.
_VECTORS = {"add": ("f32", *_HALVES), "min": _HALVES, "max": _HALVES}
_SEMANTICS = {"atom": ("relaxed", "acquire", "release", "acq_rel"), "red": ("relaxed", "release")}
# red.async: {operation: types}
_ASYNC = {
    "add": ("u32", "s32", "u64", "s64"),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32",),
    "or": ("b32",),
    "xor": ("b32",),
}


def _element(op: Opcode, kind: str, count: int, written_space: str) -> str:
    table = _VECTORS if count > 1 else _SCALARS
    if kind not in table:
        raise op.refuse("has a vector, which add, min and max of floating point take")
    if count > 1 and written_space == "shared":
        raise op.refuse("has a vector in shared memory")
    t = op.choose(table[kind])
    exact = op.flag("noftz")
    op.finish()
    if exact != (t in _HALVES):
        raise op.refuse("has .noftz" if exact else "needs .noftz")
    if count * TYPES[t] > 16 or (count == 8 and TYPES[t] != 2):
        raise op.refuse(f"has {count} elements")
    return t


def _decode_atomic(op: Opcode, shape: tuple[str, ...], returns: bool) -> Plan:
    op.choose(_SEMANTICS[op.root], "")
    op.choose(SCOPES, "")
    hint = op.flag("L2::cache_hint")
    space = take_space(op, ("", "global", *SHARED))
    if hint and space == "shared":
        raise op.refuse("has .L2::cache_hint for shared memory")
    kind = op.choose([k for k in _SCALARS if returns or k not in ("exch", "cas")])
    count = take_vector(op, shape[-1 - int(hint)])
    t = _element(op, kind, count, space)
    size = TYPES[t]
    name = t if t in ("f32", "f64") else f"b{8 * size}"
    many = "" if t == "b128" else f"*{count}"
    value = f"r:{name}{many}"
    result = (f"w:{name}{many}",) if returns else ()
    values = (value, value) if kind == "cas" else (value,)
    return Plan(
        f"atom.{kind}.{t}",
        (*result, "addr", *values) + (("r:b64",) if hint else ()),
        (SPACE_NUMBER[space], count),
        sinks=() if returns else (f"w:{name}",) * count,
    )


@decoder("atom")
def decode_atom(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Atomic operations that return the old value."""
    return _decode_atomic(op, shape, True)


@decoder("red")
def decode_red(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Atomic operations without a result."""
    if op.flag("async"):
        return _reduce_async(op)
    return _decode_atomic(op, shape, False)


def _reduce_async(op: Opcode) -> Plan:
    op.choose(("relaxed",))
    op.choose(("cluster",))
    generic = take_space(op, ("", "shared::cluster")) == "generic"
    op.choose(("mbarrier::complete_tx::bytes",))
    kind = op.choose(_ASYNC)
    t = op.choose(_ASYNC[kind])
    op.finish()
    value = f"r:b{8 * TYPES[t]}"
    return Plan("red.async", ("addr", value, "addr"), (int(generic), REDUCTIONS[kind], REDUCTION_TYPES[t]))
