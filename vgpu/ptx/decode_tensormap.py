"""Decoders of ``tensormap.replace`` and ``tensormap.cp_fenceproxy``."""

from __future__ import annotations

from .access import take_space
from .plan import Opcode, Plan, decoder

_ANY_ORDINAL = "imm<5"
# Fields: number in the engine (tensor_map_replace.cpp), register type or rule of the literal, whether an ordinal.
_FIELDS = {
    "global_address": (0, "b64", False),
    "rank": (1, "b32", False),
    "box_dim": (2, "b32", True),
    "global_dim": (3, "b32", True),
    "global_stride": (4, "b64", True),
    "element_stride": (5, "b32", True),
    "elemtype": (6, "imm<13", False),
    "interleave_layout": (7, "imm<3", False),
    "swizzle_mode": (8, "imm<4", False),
    "fill_mode": (9, "imm<2", False),
}


@decoder("tensormap")
def decode_tensormap(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Changes of a tensor map in memory, and its copy to global memory."""
    if op.next(("replace", "cp_fenceproxy")) == "cp_fenceproxy":
        for word in ("global", "shared::cta", "tensormap::generic", "release"):
            op.next((word,))
        op.next(("cta", "cluster", "gpu", "sys"))
        op.next(("sync",))
        op.next(("aligned",))
        op.finish()
        return Plan("tensormap.copy", ("addr", "addr", "imm=128"))
    op.next(("tile",))
    number, kind, ordered = _FIELDS[op.next(tuple(_FIELDS))]
    space = take_space(op, ("", "global", "shared::cta"))
    op.choose(("b1024",))
    op.choose(("b64",) if kind == "b64" else ("b32",))
    op.finish()
    value = kind if kind.startswith("imm") else f"r:{kind}"
    spaces = {"global": 0, "shared": 1, "generic": 4}
    return Plan("tensormap.replace", ("addr", *((_ANY_ORDINAL,) if ordered else ()), value), (number, spaces[space]))
