"""Decoder of the ``mbarrier`` family (PTX ISA, "Parallel synchronization instructions: mbarrier")."""

from __future__ import annotations

from .plan import Opcode, Plan, decoder

_SPACES = ("shared", "shared::cta", "shared::cluster")


@decoder("mbarrier")
def decode_mbarrier(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """``mbarrier.<operation>...``; scopes and semantics are accepted and change nothing."""
    name = op.next(tuple(_OPERATIONS))
    return _OPERATIONS[name](op, shape)


def _space(op: Opcode) -> int:
    """Takes scope, semantics, state space and ``b64``; 1 when the address is generic."""
    op.choose(("release", "acquire", "relaxed"), "")
    op.choose(("cta", "cluster"), "")
    generic = op.choose(_SPACES, "generic") == "generic"
    op.choose(("b64",))
    op.finish()
    return int(generic)


def _init(op: Opcode, shape: tuple[str, ...]) -> Plan:
    return Plan("mbarrier.init", ("addr", "r:u32"), (_space(op),))


def _inval(op: Opcode, shape: tuple[str, ...]) -> Plan:
    return Plan("mbarrier.inval", ("addr",), (_space(op),))


def _arrive(op: Opcode, shape: tuple[str, ...], drop: int = 0) -> Plan:
    expect = int(op.flag("expect_tx"))
    no_complete = int(op.flag("noComplete"))
    generic = _space(op)
    flags = (generic, expect, no_complete, drop)
    if shape[0] == "m":
        operands: tuple[str, ...] = ("addr", "r:u32")[: len(shape)]
        return Plan("mbarrier.arrive", operands, (*flags, 0))
    return Plan("mbarrier.arrive", ("w:b64", "addr", "r:u32")[: len(shape)], (*flags, 1))


def _arrive_drop(op: Opcode, shape: tuple[str, ...]) -> Plan:
    return _arrive(op, shape, drop=1)


def _expect_tx(op: Opcode, shape: tuple[str, ...]) -> Plan:
    return Plan("mbarrier.tx", ("addr", "r:u32"), (_space(op), 1))


def _complete_tx(op: Opcode, shape: tuple[str, ...]) -> Plan:
    return Plan("mbarrier.tx", ("addr", "r:u32"), (_space(op), -1))


def _test_wait(op: Opcode, shape: tuple[str, ...], park: int = 0) -> Plan:
    parity = int(op.flag("parity"))
    generic = _space(op)
    operands = ("w:pred", "addr", "r:u32" if parity else "r:b64", "r:u32")[: len(shape)]
    return Plan("mbarrier.wait", operands, (generic, parity, park))


def _try_wait(op: Opcode, shape: tuple[str, ...]) -> Plan:
    return _test_wait(op, shape, park=1)


def _pending_count(op: Opcode, shape: tuple[str, ...]) -> Plan:
    op.choose(("b64",))
    op.finish()
    return Plan("mbarrier.pending_count", ("w:u32", "r:b64"))


_OPERATIONS = {
    "init": _init,
    "inval": _inval,
    "arrive": _arrive,
    "arrive_drop": _arrive_drop,
    "expect_tx": _expect_tx,
    "complete_tx": _complete_tx,
    "test_wait": _test_wait,
    "try_wait": _try_wait,
    "pending_count": _pending_count,
}
