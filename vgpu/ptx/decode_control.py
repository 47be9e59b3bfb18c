"""Decoders of control flow, barriers and instructions without an effect here."""

from __future__ import annotations

from .forms import Forms
from .plan import Opcode, Plan, decoder

_CLUSTER = Forms(".cluster.arrive{.release|.relaxed}{.aligned}", ".cluster.wait{.acquire}{.aligned}")
_MAXNREG = Forms(".(inc|dec).sync.aligned.u32")


@decoder("bra")
def decode_bra(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Branch to a label."""
    op.drop("uni")
    op.finish()
    return Plan("bra", ("label",))


@decoder("ret", "exit")
def decode_leave(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """End of a function or thread."""
    op.drop("uni")
    op.finish()
    return Plan(op.root, ())


@decoder("trap", "brkpt")
def decode_trap(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """``trap`` ends the launch with a finding; ``brkpt`` does nothing."""
    op.finish()
    return Plan("trap" if op.root == "trap" else "nop", ())


@decoder("bar", "barrier")
def decode_bar(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Barriers of a block, a warp or a cluster."""
    if op.flag("warp"):
        op.choose(("sync",))
        op.finish()
        return Plan("bar.warp", ("r:b32",))
    if op.flag("cluster"):
        return _cluster(op)
    op.drop("cta")
    aligned = op.flag("aligned") or op.root == "bar"
    kind = op.choose(("sync", "arrive", "red"))
    reduction = 0
    if kind == "red":
        reduction = ("popc", "and", "or").index(op.choose(("popc", "and", "or"))) + 1
        op.choose(("u32",) if reduction == 1 else ("pred",))
    op.finish()
    extra = 2 if reduction else 0
    counted = len(shape) - extra == 2
    if len(shape) - extra not in (1, 2) or (kind == "arrive" and not counted):
        raise op.refuse(f"has {len(shape)} operands")
    result = (("w:u32",) if reduction == 1 else ("w:pred",)) if reduction else ()
    count = ("r:u32",) if counted else ()
    source = ("r:pred",) if reduction else ()
    return Plan(
        "bar", (*result, "r:u32", *count, *source), (int(aligned), reduction, int(counted), int(kind == "arrive"))
    )


def _cluster(op: Opcode) -> Plan:
    words = _CLUSTER.take(op)
    return Plan(f"barrier.cluster.{'arrive' if 'arrive' in words else 'wait'}", (), (int("aligned" in words),))


# Instructions without an effect here, by form: {root: (forms, operands)}.
_NO_EFFECT = {
    "nanosleep": (Forms(".u32"), ("r:u32",)),
    "griddepcontrol": (Forms(".(launch_dependents|wait)"), ()),
}


@decoder(*_NO_EFFECT)
def decode_no_effect(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Sleeping, and launch dependence."""
    forms, operands = _NO_EFFECT[op.root]
    forms.take(op)
    return Plan("nop", operands)


@decoder("pmevent")
def decode_pmevent(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Performance monitor events: one of 16, or a mask of them."""
    mask = op.flag("mask")
    op.finish()
    return Plan("nop", (f"imm<{1 << 16 if mask else 16}",))


@decoder("setmaxnreg")
def decode_setmaxnreg(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """The warps of a warpgroup change their register counts together."""
    _MAXNREG.take(op)
    return Plan("setmaxnreg", ("imm@24,256,8",))


@decoder("alloca")
def decode_alloca(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Memory of the thread's stack, aligned to 8 bytes or as its third operand says."""
    t = op.choose(("u32", "u64"))
    op.finish()
    align = ("imm=1,2,4,8,16,32,64,128",) if len(shape) == 3 else ()
    return Plan("alloca", (f"w:{t}", f"r:{t}", *align), (int(t[1:]) // 8, 8))


@decoder("stacksave", "stackrestore")
def decode_stack(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """The top of the thread's stack, to be gone back to."""
    t = op.choose(("u32", "u64"))
    op.finish()
    restores = op.root == "stackrestore"
    return Plan("stack", (f"{'r' if restores else 'w'}:{t}",), (int(restores), int(t[1:]) // 8))


@decoder("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep")
def decode_texture(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Textures and surfaces."""
    raise op.refuse("works on textures or surfaces, which the virtual GPU does not have")
