"""Decoders of ``ld ldu st st.async mapa getctarank``."""

from __future__ import annotations

from .access import LOADS, SHARED, STORES, TYPES, take_access, take_space, take_vector
from .plan import Opcode, Plan, decoder

_MOVED = tuple(t for t in TYPES if "f16" not in t)


def _operand(t: str, size: int, count: int, role: str) -> str:
    if t == "b128":
        return f"{role}:b128?"
    # f32 keeps its literals; everything else is bits of any register wide enough.
    name = t if t in ("f32", "f64") else f"b{8 * size}"
    return f"{role}:{name}?*{count}"


def _elements(op: Opcode, shape: str, vector: bool) -> tuple[str, int, int]:
    """Type, bytes of an element that a register holds, and how many there are."""
    count = take_vector(op, shape)
    t = op.choose(_MOVED)
    op.finish()
    if count > 1 and not vector:
        raise op.refuse("has a vector")
    if count * TYPES[t] > 16:
        raise op.refuse(f"moves {count * TYPES[t]} bytes; an access has at most 16")
    return (t, 8, 2) if t == "b128" else (t, TYPES[t], count)


@decoder("ld")
def decode_ld(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Loads."""
    written, space, hint, vector = take_access(op, LOADS)
    t, size, count = _elements(op, shape[0], vector)
    if t == "b128" and space == "param":
        raise op.refuse(f"has state space .{written}")
    operands = (_operand(t, size, count, "w"), "addr") + (("r:b64",) if hint else ())
    return Plan(f"ld.{space}", operands, (size, int(t[0] == "s"), count))


@decoder("ldu")
def decode_ldu(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Loads of addresses that are alike in a warp."""
    space = take_space(op, ("", "global"))
    t, size, count = _elements(op, shape[0], True)
    return Plan(f"ld.{space}", (_operand(t, size, count, "w"), "addr"), (size, int(t[0] == "s"), count))


@decoder("st")
def decode_st(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Stores."""
    if op.flag("async"):
        return _store_async(op, shape)
    _, space, hint, vector = take_access(op, STORES)
    t, size, count = _elements(op, shape[1], vector)
    operands = ("addr", _operand(t, size, count, "r")) + (("r:b64",) if hint else ())
    return Plan(f"st.{space}", operands, (size, count))


def _store_async(op: Opcode, shape: tuple[str, ...]) -> Plan:
    op.flag("weak")
    generic = take_space(op, ("", *SHARED)) == "generic"
    op.choose(("mbarrier::complete_tx::bytes",))
    count = take_vector(op, shape[1])
    t = op.choose(("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64"))
    op.finish()
    size = TYPES[t]
    if size * count > 16:
        raise op.refuse(f"moves {size * count} bytes; it moves at most 16")
    value = f"r:{t if t[0] == 'f' else f'b{8 * size}'}*{count}"
    return Plan("st.async", ("addr", value, "addr"), (int(generic), size, count))


@decoder("mapa")
def decode_mapa(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Address in the shared memory of another block of the cluster."""
    generic = not op.flag("shared::cluster")
    t = op.choose(("u32", "u64"))
    op.finish()
    return Plan(f"mapa.{t[1:]}", (f"w:{t}", f"r:{t}", "r:u32"), (int(generic and t == "u64"),))


@decoder("getctarank")
def decode_getctarank(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Rank of the block that owns a shared address."""
    generic = not op.flag("shared::cluster")
    t = op.choose(("u32", "u64"))
    op.finish()
    return Plan("getctarank", ("w:u32", f"r:{t}"), (int(t == "u64"), int(generic and t == "u64")))
