"""Decoders of ``ldmatrix``, ``stmatrix`` and ``movmatrix`` for 8x8 matrices of 16-bit elements."""

from __future__ import annotations

from .plan import Opcode, Plan, decoder

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}


def shared_space(op: Opcode) -> bool:
    """Takes the state space; True when there is none and the address is therefore generic."""
    return op.choose(("shared", "shared::cta"), "generic") == "generic"


def _matrices(op: Opcode) -> tuple[int, int, int]:
    op.next(("sync",))
    op.next(("aligned",))
    count = _COUNTS[op.choose(_COUNTS)]
    op.choose(("m8n8",))
    transposed = op.flag("trans")
    generic = shared_space(op)
    op.choose(("b16",))
    op.finish()
    return count, int(transposed), int(generic)


@decoder("ldmatrix")
def decode_ldmatrix(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """``ldmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 d, [address]``."""
    count, transposed, generic = _matrices(op)
    return Plan("ldmatrix", (f"w:b32*{count}", "addr"), (count, transposed, generic))


@decoder("stmatrix")
def decode_stmatrix(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """``stmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 [address], s``."""
    count, transposed, generic = _matrices(op)
    return Plan("stmatrix", ("addr", f"r:b32*{count}"), (count, transposed, generic))


@decoder("movmatrix")
def decode_movmatrix(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """``movmatrix.sync.aligned.m8n8.trans.b16 d, a``."""
    for name in ("sync", "aligned", "m8n8", "trans", "b16"):
        op.next((name,))
    op.finish()
    return Plan("movmatrix", ("w:b32", "r:b32"))
