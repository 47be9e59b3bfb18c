"""Decoders of bulk copies: ``cp.async.bulk``, ``cp.async.bulk.tensor`` and their reductions."""

from __future__ import annotations

from collections.abc import Mapping

from .plan import Opcode, Plan

# Numbers of the engine's enums ``Reduction`` and ``ReductionType`` (bulk.cpp).
REDUCTIONS = {"add": 0, "min": 1, "max": 2, "inc": 3, "dec": 4, "and": 5, "or": 6, "xor": 7}
REDUCTION_TYPES = {"u32": 0, "s32": 1, "u64": 2, "s64": 3, "f32": 4, "f64": 5, "f16": 6, "bf16": 7, "b32": 0, "b64": 2}
# Types of a reduction, into global memory and into shared memory of the cluster.
_ORDERED = ("u32", "s32", "u64", "s64", "f16", "bf16")
_GLOBAL_TYPES = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
    "min": _ORDERED,
    "max": _ORDERED,
    "inc": ("u32",),
    "dec": ("u32",),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
}
_CLUSTER_TYPES = {
    "add": ("u32", "s32", "u64"),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "inc": ("u32",),
    "dec": ("u32",),
    **dict.fromkeys(("and", "or", "xor"), ("b32",)),
}
_SHARED = ("shared::cta", "shared::cluster")


def decode_bulk_copy(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """``cp.async.bulk...`` behind its first three words."""
    if op.flag("commit_group"):
        op.finish()
        return Plan("cp.async.bulk.commit_group", ())
    if op.flag("wait_group"):
        read = op.flag("read")
        op.finish()
        return Plan("cp.async.bulk.wait_group", ("imm@0,4294967295,1",), (int(read),))
    if op.flag("prefetch"):
        return _prefetch(op, shape)
    if op.flag("tensor"):
        return _tensor(op, shape)
    return _linear(op, shape)


def decode_bulk_reduce(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """``cp.reduce.async.bulk...`` behind its first four words."""
    if op.flag("tensor"):
        rank = _rank(op)
        _direction(op, "global", ("shared::cta",))
        reduction = REDUCTIONS[op.choose(REDUCTIONS)]
        mode = _mode(op, rank, "im2col_no_offs")
        op.choose(("bulk_group",))
        return Plan("bulk.tensor_store", _hinted(op, shape, (f"tensor*{rank}", "addr")), (mode, reduction + 1))
    if op.next(("global", "shared::cluster")) == "global":
        op.next(("shared::cta",))
        op.choose(("bulk_group",))
        imms = _reduction(op, _GLOBAL_TYPES)
        return Plan("bulk.store", _hinted(op, shape, ("addr", "addr", "r:u32")), imms)
    op.next(("shared::cta",))
    op.choose(("mbarrier::complete_tx::bytes",))
    reduction, kind = _reduction(op, _CLUSTER_TYPES)
    op.finish()
    return Plan("bulk.load", ("addr", "addr", "r:u32", "addr"), (0, 0, reduction, kind))


def _reduction(op: Opcode, table: Mapping[str, tuple[str, ...]]) -> tuple[int, int]:
    """Takes operation, ``.noftz`` and type: the number of the operation plus 1, and that of the type."""
    name = op.choose(table)
    exact = op.flag("noftz")
    t = op.choose(table[name])
    if exact != (name == "add" and t in ("f16", "bf16")):
        raise op.refuse("has .noftz" if exact else "needs .noftz")
    return REDUCTIONS[name] + 1, REDUCTION_TYPES[t]


def _direction(op: Opcode, target: str, source: tuple[str, ...]) -> None:
    op.next((target,))
    op.next(source)


def _hinted(op: Opcode, shape: tuple[str, ...], operands: tuple[str, ...]) -> tuple[str, ...]:
    """``operands``, and the cache policy that ``.L2::cache_hint`` adds; checks their number."""
    if op.flag("L2::cache_hint"):
        operands = (*operands, "r:b64")
    op.finish()
    if len(shape) != len(operands):
        raise op.refuse(f"has {len(shape)} operands where it takes {len(operands)}")
    return operands


def _rank(op: Opcode) -> int:
    return int(op.next(tuple(f"{n}d" for n in range(1, 6)))[0])


def _mode(op: Opcode, rank: int, im2col: str) -> int:
    """The rank, and 8 more where the modifier named ``im2col`` is there."""
    if not op.flag(im2col):
        op.drop("tile")
        return rank
    if rank < 3:
        raise op.refuse(f"has .{im2col}, which takes 3 to 5 dimensions")
    return rank + 8


def _offsets(mode: int) -> tuple[str, ...]:
    return (f"r:u16*{mode - 10}",) if mode > 8 else ()


def _tensor(op: Opcode, shape: tuple[str, ...]) -> Plan:
    rank = _rank(op)
    target = op.next((*_SHARED, "global"))
    if target == "global":
        op.next(("shared::cta",))
        mode = _mode(op, rank, "im2col_no_offs")
        op.choose(("bulk_group",))
        return Plan("bulk.tensor_store", _hinted(op, shape, (f"tensor*{rank}", "addr")), (mode, 0))
    op.next(("global",))
    mode = _mode(op, rank, "im2col")
    op.choose(("mbarrier::complete_tx::bytes",))
    multicast = op.flag("multicast::cluster")
    operands = ("addr", f"tensor*{rank}", "addr", *_offsets(mode), *(("r:u16",) if multicast else ()))
    return Plan("bulk.tensor_load", _hinted(op, shape, operands), (mode, int(multicast)))


def _linear(op: Opcode, shape: tuple[str, ...]) -> Plan:
    target = op.next((*_SHARED, "global"))
    if target == "global":
        op.next(("shared::cta",))
        op.choose(("bulk_group",))
        return Plan("bulk.store", _hinted(op, shape, ("addr", "addr", "r:u32")), (0, 0))
    source = op.next(("global", "shared::cta"))
    op.choose(("mbarrier::complete_tx::bytes",))
    multicast = op.flag("multicast::cluster")
    operands = ("addr", "addr", "r:u32", "addr", *(("r:u16",) if multicast else ()))
    if (target == "shared::cta" and (multicast or source != "global")) or (multicast and source != "global"):
        raise op.refuse("needs .shared::cluster behind .bulk" if target == "shared::cta" else "has .multicast::cluster")
    if source != "global" and "L2::cache_hint" in op.rest:
        raise op.refuse("has .L2::cache_hint")
    return Plan("bulk.load", _hinted(op, shape, operands), (int(source == "global"), int(multicast), 0, 0))


def _prefetch(op: Opcode, shape: tuple[str, ...]) -> Plan:
    if op.flag("tensor"):
        rank = _rank(op)
        _direction(op, "L2", ("global",))
        operands = (f"tensor*{rank}", *_offsets(_mode(op, rank, "im2col")))
        return Plan("bulk.prefetch", _hinted(op, shape, operands))
    _direction(op, "L2", ("global",))
    return Plan("bulk.prefetch_bytes", _hinted(op, shape, ("addr", "r:u32")))
