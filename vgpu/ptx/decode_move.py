"""Decoders of ``mov``, ``cvta``, ``isspacep`` and ``activemask``."""

from __future__ import annotations

from .plan import Opcode, Plan, decoder

_TYPES = ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f16", "bf16", "f32", "f64", "f16x2", "bf16x2")
_WINDOWS = {
    "global": 0, "const": 0, "shared": 1, "shared::cta": 1, "shared::cluster": 1, "local": 2, "param": 3,
    "param::entry": 3,
}  # fmt: skip
# Clocks by the letters of their operand shape: bits of the register, and the bit of the 64-bit clock that comes first.
_CLOCKS = {"c": (32, 0), "ch": (32, 32), "c64": (64, 0)}


def _bits(t: str) -> int:
    return 64 if t.endswith("64") else 16 if t in ("b16", "u16", "s16", "f16", "bf16") else 32


@decoder("mov")
def decode_mov(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Copies, packs and unpacks; reads of the clocks (operand shape ``c``)."""
    t = op.choose((*_TYPES, "pred", "b128"))
    op.finish()
    if t == "b128":
        return _whole(op, shape)
    if t == "pred":
        return Plan("mov.pred", ("w:pred", "r:pred"))
    bits = _bits(t)
    if len(shape) != 2:
        raise op.refuse(f"has {len(shape)} operands")
    if shape[1] in _CLOCKS:
        width, first = _CLOCKS[shape[1]]
        if bits != width or t[0] == "f":
            raise op.refuse(f"reads a clock of {width} bits")
        return Plan(f"clock.{width}", (f"w:{t}",), (first,), unread=1)
    whole = 64 if bits == 64 else 32
    for at, name in ((1, "pack"), (0, "unpack")):
        if shape[at][0] == "v":
            count = int(shape[at][1:])
            part = bits // count
            if part not in (8, 16, 32):
                raise op.refuse(f"has {count} elements")
            many = f"{'r' if at else 'w'}:b{part}*{count}" if part > 8 else f"{'r' if at else 'w'}:b16*{count}"
            one = f"{'w' if at else 'r'}:{t}"
            return Plan(f"mov.{name}.{whole}", (one, many) if at else (many, one), (part, count))
    return Plan(f"mov.{whole}", (f"w:{t}", f"r:{t}"))


def _whole(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Moves of 128 bits: ``{lo, hi}`` or four words may stand on one side."""
    pieces = {"v2": "b64*2", "v4": "b32*4"}
    target, source = (pieces.get(s, "b128") for s in shape)
    if target != "b128" and source != "b128":
        raise op.refuse("has two vectors")
    words = int(target == "b32*4") or 2 * int(source == "b32*4")
    return Plan("mov.128", (f"w:{target}", f"r:{source}"), (words,))


@decoder("cvta")
def decode_cvta(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Generic address from or to a state space."""
    to = op.flag("to")
    space = op.choose(_WINDOWS)
    t = op.choose(("u64", "u32"))
    op.finish()
    if t == "u32":
        raise op.refuse("has 32-bit addresses")
    return Plan("cvta", ("w:u64", "r:u64"), (_WINDOWS[space], int(to)))


@decoder("isspacep")
def decode_isspacep(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Whether a generic address lies in a state space."""
    space = op.choose(_WINDOWS)
    op.finish()
    return Plan("isspacep", ("w:pred", "r:u64"), (_WINDOWS[space], int(space in ("shared", "shared::cta"))))


@decoder("activemask")
def decode_activemask(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """The lanes that run this instruction."""
    op.choose(("b32",))
    op.finish()
    return Plan("activemask", ("w:b32",))
