"""Decoders of control flow, barriers, fences and instructions without an effect here."""

from __future__ import annotations

from .plan import Opcode, Plan, decoder

_SCOPES = ("cta", "cluster", "gpu", "sys")


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
    kind = op.choose(("arrive", "wait"))
    op.drop("release", "relaxed", "acquire")
    aligned = op.flag("aligned")
    op.finish()
    return Plan(f"barrier.cluster.{kind}", (), (int(aligned),))


@decoder("membar", "fence")
def decode_fence(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Fences. Memory is sequentially consistent here; only fences that show writes to the async proxy have an effect.

    Race detection sees the others (``fence`` in the traits).
    """
    if op.root == "membar":
        op.choose(("cta", "gl", "sys", "proxy"), "")
        op.drop("alias")
        op.finish()
        return Plan("nop", ())
    if op.flag("proxy"):
        return _proxy(op, shape)
    op.flag("mbarrier_init")
    op.drop(
        "sc",
        "acq_rel",
        "acquire",
        "release",
        "sync_restrict::shared::cta",
        "sync_restrict::shared::cluster",
    )
    op.drop(*_SCOPES)
    op.finish()
    return Plan("nop", ())


def _proxy(op: Opcode, shape: tuple[str, ...]) -> Plan:
    kind = op.choose(("async", "alias", "tensormap::generic", "async::generic"))
    spaces = ("global", "shared::cta", "shared::cluster")
    space = op.choose(spaces, "")
    op.drop("acquire", "release", *_SCOPES, "sync_restrict::shared::cta", "sync_restrict::shared::cluster")
    op.finish()
    operands = ("addr", "imm")[: len(shape)]
    if kind != "async" or space == "global":
        return Plan("nop", operands)
    return Plan("fence.proxy.async", operands, (int(space == "shared::cta"),))


@decoder("setmaxnreg", "nanosleep", "griddepcontrol", "pmevent", "createpolicy")
def decode_no_effect(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Instructions that change nothing here: register counts, sleeping, launch dependence, cache policies."""
    if op.root == "createpolicy":
        op.drop(
            "fractional",
            "range",
            "global",
            "b64",
            "cvt",
            "L2",
            "L2::evict_last",
            "L2::evict_first",
            "L2::evict_normal",
            "L2::evict_unchanged",
        )
        op.finish()
        return Plan("mov.64", ("w:b64",), unread=len(shape) - 1, zero=True)
    op.drop("inc", "dec", "sync", "aligned", "u32", "wait", "launch_dependents", "mask")
    op.finish()
    return Plan("nop", ("imm" if op.root == "setmaxnreg" else "r:u32",)[: len(shape)])
