"""Decoder of the ``mbarrier`` family (PTX ISA, "Parallel synchronization instructions: mbarrier")."""

from __future__ import annotations

from .plan import Opcode, Plan, decoder

_OWN = ("", "shared", "shared::cta")
_ANY = (*_OWN, "shared::cluster")
_SPACES = _ANY[1:]
# Memory orders that an operation takes, with the scope .cta or .cluster.
_ARRIVES = ("release", "relaxed")
_WAITS = ("acquire", "relaxed")


@decoder("mbarrier")
def decode_mbarrier(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """``mbarrier.<operation>...``; what race detection must know of scopes and orders is among the traits."""
    name = op.next(tuple(_OPERATIONS))
    return _OPERATIONS[name](op, shape)


def _space(op: Opcode, spaces: tuple[str, ...], orders: tuple[str, ...] = ()) -> tuple[int, bool]:
    """Takes order, scope, state space and ``b64``: 1 when the address is generic, and whether it is ``::cluster``."""
    order, scope = op.choose(orders, ""), op.choose(("cta", "cluster"), "")
    if bool(order) != bool(scope):
        raise op.refuse(f"has .{order or scope}; an order and one of the scopes .cta, .cluster go together")
    space = op.choose(_SPACES, "")
    if space not in spaces:
        raise op.refuse(f"has state space .{space}")
    op.choose(("b64",))
    op.finish()
    return int(space == ""), space == "shared::cluster"


def _counted(op: Opcode, shape: tuple[str, ...], wanted: tuple[int, ...]) -> None:
    if len(shape) not in wanted:
        raise op.refuse(f"has {len(shape)} operands where {' or '.join(map(str, wanted))} belong")


def _init(op: Opcode, shape: tuple[str, ...]) -> Plan:
    return Plan("mbarrier.init", ("addr", "r:u32"), (_space(op, _OWN)[0],))


def _inval(op: Opcode, shape: tuple[str, ...]) -> Plan:
    return Plan("mbarrier.inval", ("addr",), (_space(op, _OWN)[0],))


def _arrive(op: Opcode, shape: tuple[str, ...], drop: int = 0) -> Plan:
    expect, no_complete = op.flag("expect_tx"), op.flag("noComplete")
    if expect and no_complete:
        raise op.refuse("has .expect_tx and .noComplete")
    generic, remote = _space(op, _OWN if no_complete else _ANY, _ARRIVES)
    _counted(op, shape, (3,) if expect or no_complete else (2, 3))
    # The state of another block's barrier is not returned.
    operands = ("_:b64" if remote else "w:b64", "addr", "r:u32")[: len(shape)]
    return Plan("mbarrier.arrive", operands, (generic, int(expect), int(no_complete), drop, 1))


def _arrive_drop(op: Opcode, shape: tuple[str, ...]) -> Plan:
    return _arrive(op, shape, drop=1)


def _transaction(op: Opcode, sign: int) -> Plan:
    return Plan("mbarrier.tx", ("addr", "r:u32"), (_space(op, _ANY, ("relaxed",))[0], sign))


def _expect_tx(op: Opcode, shape: tuple[str, ...]) -> Plan:
    return _transaction(op, 1)


def _complete_tx(op: Opcode, shape: tuple[str, ...]) -> Plan:
    return _transaction(op, -1)


def _test_wait(op: Opcode, shape: tuple[str, ...], park: int = 0) -> Plan:
    parity = int(op.flag("parity"))
    generic = _space(op, _OWN, _WAITS)[0]
    _counted(op, shape, (3, 4) if park else (3,))
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
