"""Decoders of instructions across lanes: ``shfl vote match redux elect``."""

from __future__ import annotations

from .plan import Opcode, Plan, decoder


def _synchronised(op: Opcode) -> None:
    """Takes ``.sync``; the forms without it left the architectures with sm_70."""
    if not op.flag("sync"):
        raise op.refuse("needs .sync on sm_70 and newer")


@decoder("shfl")
def decode_shfl(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Register exchange between lanes."""
    _synchronised(op)
    modes = ("up", "down", "bfly", "idx")
    mode = modes.index(op.choose(modes))
    op.choose(("b32",))
    op.finish()
    return Plan("shfl", ("w:b32|pred", "r:b32", "r:u32", "r:u32", "r:b32"), (mode, 1))


@decoder("vote")
def decode_vote(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Votes on a predicate."""
    _synchronised(op)
    modes = ("all", "any", "uni", "ballot")
    mode = modes.index(op.choose(modes))
    op.choose(("b32",) if mode == 3 else ("pred",))
    op.finish()
    result = "w:b32" if mode == 3 else "w:pred"
    return Plan("vote", (result, "r:pred", "r:b32"), (mode, 1))


@decoder("match")
def decode_match(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Lanes that hold the same value."""
    every = op.choose(("any", "all")) == "all"
    op.choose(("sync",))
    t = op.choose(("b32", "b64"))
    op.finish()
    return Plan(f"match.{t}", ("w:b32|pred", f"r:{t}", "r:b32"), (int(every),))


@decoder("redux")
def decode_redux(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Reduction over lanes."""
    op.choose(("sync",))
    kind = op.choose(("add", "min", "max", "and", "or", "xor"))
    t = op.choose(("b32",) if kind in ("and", "or", "xor") else ("s32", "u32"))
    op.finish()
    handler = f"redux.{kind}.{t}" if kind in ("min", "max") else f"redux.{kind}"
    return Plan(handler, ("w:b32", "r:b32", "r:b32"))


@decoder("elect")
def decode_elect(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Election of one lane."""
    op.choose(("sync",))
    op.finish()
    return Plan("elect", ("w:b32|pred", "r:b32"))
