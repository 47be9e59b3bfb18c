"""Decoder of everything that starts with ``cp``: ``cp.async`` here, bulk copies in :mod:`decode_bulk`."""

from __future__ import annotations

from .decode_bulk import decode_bulk_copy, decode_bulk_reduce
from .decode_ldmatrix import shared_space
from .plan import Opcode, Plan, decoder


@decoder("cp")
def decode_cp(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """``cp.async...``, ``cp.async.bulk...`` and ``cp.reduce.async.bulk...``."""
    if op.next(("async", "reduce")) == "reduce":
        op.next(("async",))
        op.next(("bulk",))
        return decode_bulk_reduce(op, shape)
    if op.flag("bulk"):
        return decode_bulk_copy(op, shape)
    if op.flag("mbarrier"):
        return _arrive(op)
    for name, operands in (("commit_group", ()), ("wait_group", ("imm@0,4294967295,1",)), ("wait_all", ())):
        if op.flag(name):
            op.finish()
            return Plan(f"cp.async.{name}", operands)
    return _copy(op, shape)


def _arrive(op: Opcode) -> Plan:
    op.next(("arrive",))
    no_increment = op.flag("noinc")
    generic = shared_space(op)
    op.choose(("b64",))
    op.finish()
    return Plan("cp.async.mbarrier.arrive", ("addr",), (int(generic), int(no_increment)))


def _copy(op: Opcode, shape: tuple[str, ...]) -> Plan:
    size = "imm=16" if op.next(("ca", "cg")) == "cg" else "imm=4,8,16"
    generic = shared_space(op)
    op.choose(("global",))
    hinted = op.flag("L2::cache_hint")
    op.choose(("L2::64B", "L2::128B", "L2::256B"), "")
    op.finish()
    rest = len(shape) - 3 - hinted
    if rest not in (0, 1):
        raise op.refuse(f"has {len(shape)} operands")
    policy = ("r:b64",) if hinted else ()
    return Plan("cp.async", ("addr", "addr", size, *("size",) * rest, *policy), (int(generic), rest))
