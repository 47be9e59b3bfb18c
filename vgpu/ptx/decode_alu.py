"""Decoders of integer, logic and shift instructions; ``add``, ``mul`` ... of floats are in :mod:`decode_float`."""

from __future__ import annotations

from .decode_float import decode_float_arithmetic, is_float
from .plan import Opcode, Plan, decoder

INTEGERS = ("s16", "u16", "s32", "u32", "s64", "u64")
_WIDE = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}


def _three(handler: str, t: str, imms: tuple[int, ...] = ()) -> Plan:
    return Plan(handler, (f"w:{t}", f"r:{t}", f"r:{t}"), imms)


@decoder("add", "sub", "min", "max", "neg", "abs", "div")
def decode_arithmetic(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Arithmetic that integers and floats share."""
    if is_float(op):
        return decode_float_arithmetic(op, shape)
    if op.root in ("add", "sub") and op.flag("cc"):
        t = op.choose(("s32", "u32", "s64", "u64"))
        op.finish()
        return _three(f"{op.root}.cc.u{t[1:]}", t, (1, 0))
    sat = op.root in ("add", "sub") and op.flag("sat")
    relu = op.root in ("min", "max") and op.flag("relu")
    packed = ("s16x2", "u16x2") if op.root in ("add", "min", "max") else ()
    t = op.choose((*INTEGERS, *packed))
    op.finish()
    if (sat and t != "s32") or (relu and t not in ("s32", "s16x2")):
        raise op.refuse(f"has .{'sat' if sat else 'relu'} with .{t}")
    handler = f"{op.root}.{'sat.' if sat else 'relu.' if relu else ''}{t}"
    if op.root in ("neg", "abs"):
        if t[0] == "u":
            raise op.refuse("takes signed types")
        return Plan(handler, (f"w:{t}", f"r:{t}"))
    return _three(handler, "b32") if t.endswith("x2") else _three(handler, t)


@decoder("addc", "subc")
def decode_carry(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Addition and subtraction with carry in."""
    cc = op.flag("cc")
    t = op.choose(("s32", "u32", "s64", "u64"))
    op.finish()
    return _three(f"{op.root[:3]}.cc.u{t[1:]}", t, (int(cc), 1))


@decoder("rem")
def decode_rem(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Remainder."""
    t = op.choose(INTEGERS)
    op.finish()
    return _three(f"rem.{t}", t)


@decoder("mul", "mad", "mul24", "mad24")
def decode_multiply(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Multiplication, with or without addition."""
    if is_float(op):
        return decode_float_arithmetic(op, shape)
    add = op.root.startswith("mad")
    kinds = ("lo", "hi") if op.root.endswith("24") else ("lo", "hi", "wide")
    kind = op.choose(kinds)
    sat, cc = op.flag("sat"), op.flag("cc")
    t = op.choose(("s32", "u32") if op.root.endswith("24") else INTEGERS)
    op.finish()
    if cc:
        if not add or kind == "wide" or t.endswith("16"):
            raise op.refuse("has .cc")
        return Plan(f"mad.cc.{t}", (f"w:{t}", f"r:{t}", f"r:{t}", f"r:{t}"), (1, 0, int(kind == "hi")))
    if sat and (op.root, kind, t) not in (("mad", "hi", "s32"), ("mad24", "hi", "s32")):
        raise op.refuse("has .sat")
    result = t
    if kind == "wide":
        if t not in _WIDE:
            raise op.refuse(f"has .wide with .{t}")
        result = _WIDE[t]
    operands = (f"w:{result}", f"r:{t}", f"r:{t}") + ((f"r:{result}",) if add else ())
    return Plan(f"{op.root}.{kind}.{'sat.' if sat else ''}{t}", operands)


@decoder("madc")
def decode_madc(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Multiplication and addition with carry in."""
    kind = op.choose(("lo", "hi"))
    cc = op.flag("cc")
    t = op.choose(("s32", "u32", "s64", "u64"))
    op.finish()
    return Plan(f"mad.cc.{t}", (f"w:{t}", f"r:{t}", f"r:{t}", f"r:{t}"), (int(cc), 1, int(kind == "hi")))


@decoder("sad")
def decode_sad(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Sum of absolute differences."""
    t = op.choose(INTEGERS)
    op.finish()
    return Plan(f"sad.{t}", (f"w:{t}", f"r:{t}", f"r:{t}", f"r:{t}"))


@decoder("and", "or", "xor", "not", "cnot")
def decode_logic(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Bitwise logic on registers and predicates."""
    t = op.choose(("b16", "b32", "b64") + (() if op.root == "cnot" else ("pred",)))
    op.finish()
    sources = (f"r:{t}",) * (1 if op.root in ("not", "cnot") else 2)
    return Plan(f"{op.root}.{t}", (f"w:{t}", *sources))


@decoder("shl", "shr")
def decode_shift(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Shifts; amounts beyond the width give 0 or the sign."""
    t = op.choose(("b16", "b32", "b64") if op.root == "shl" else ("b16", "b32", "b64", *INTEGERS))
    op.finish()
    if op.root == "shr":
        t = t.replace("b", "u")
    return Plan(f"{op.root}.{t}", (f"w:{t}", f"r:{t}", "r:u32"))


@decoder("shf")
def decode_funnel(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Funnel shift."""
    left = op.choose(("l", "r")) == "l"
    wraps = op.choose(("clamp", "wrap")) == "wrap"
    op.choose(("b32",))
    op.finish()
    return Plan("shf", ("w:b32", "r:b32", "r:b32", "r:u32"), (int(left), int(wraps)))


@decoder("prmt")
def decode_prmt(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Byte permutation; a mode stands before or behind the type."""
    modes = ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    op.choose(("b32",))
    mode = modes.index(op.choose(modes[1:], ""))
    op.finish()
    return Plan("prmt", ("w:b32", "r:b32", "r:b32", "r:b32"), (mode,))


@decoder("bfe")
def decode_bfe(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Bit field extract."""
    t = op.choose(("s32", "u32", "s64", "u64"))
    op.finish()
    return Plan(f"bfe.{t}", (f"w:{t}", f"r:{t}", "r:u32", "r:u32"))


@decoder("bfi")
def decode_bfi(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Bit field insert."""
    t = op.choose(("b32", "b64"))
    op.finish()
    return Plan(f"bfi.{t}", (f"w:{t}", f"r:{t}", f"r:{t}", "r:u32", "r:u32"))


@decoder("bfind", "clz", "popc", "brev")
def decode_find(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Bit searches and counts; all but ``brev`` give 32 bits."""
    amount = op.root == "bfind" and op.flag("shiftamt")
    t = op.choose(("s32", "u32", "s64", "u64") if op.root == "bfind" else ("b32", "b64"))
    op.finish()
    result = t if op.root == "brev" else "u32"
    return Plan(f"{op.root}.{'shiftamt.' if amount else ''}{t}", (f"w:{result}", f"r:{t}"))


@decoder("bmsk")
def decode_bmsk(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Bit field mask."""
    wraps = op.choose(("clamp", "wrap")) == "wrap"
    op.choose(("b32",))
    op.finish()
    return Plan("bmsk", ("w:b32", "r:u32", "r:u32"), (int(wraps),))


@decoder("fns")
def decode_fns(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Find the n-th set bit."""
    op.choose(("b32",))
    op.finish()
    return Plan("fns", ("w:b32", "r:b32", "r:b32", "r:s32"))


@decoder("dp4a", "dp2a")
def decode_dot(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Dot products of bytes."""
    high = op.choose(("lo", "hi")) == "hi" if op.root == "dp2a" else False
    a, b = op.next(("s32", "u32")), op.next(("s32", "u32"))
    op.finish()
    imms = (int(a == "s32"), int(b == "s32")) + ((int(high),) if op.root == "dp2a" else ())
    return Plan(op.root, ("w:b32", "r:b32", "r:b32", "r:b32"), imms)


@decoder("lop3")
def decode_lop3(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Any logic function of three inputs; with ``.or .and`` also whether it is not zero, combined with q."""
    boolean = ("or", "and")
    name = op.choose(boolean, "")
    op.next(("b32",))
    op.finish()
    if len(shape) != (6 if name else 5):
        raise op.refuse(f"has {len(shape)} operands")
    sources = ("r:b32", "r:b32", "r:b32", "imm")
    if not name:
        return Plan("lop3", ("w:b32", *sources))
    return Plan("lop3.pred", ("w:b32|pred", *sources, "r:pred"), (boolean.index(name),))


@decoder("szext")
def decode_szext(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Sign or zero extension of the low b bits."""
    wraps = op.next(("clamp", "wrap")) == "wrap"
    signed = op.next(("s32", "u32")) == "s32"
    op.finish()
    return Plan("szext", ("w:b32", "r:b32", "r:u32"), (int(signed), int(wraps)))
