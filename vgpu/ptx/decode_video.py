"""Decoders of the video instructions (PTX ISA, "Scalar Video Instructions", "SIMD Video Instructions")."""

from __future__ import annotations

from .forms import Forms
from .plan import Opcode, Plan, decoder

_KINDS = ("add", "sub", "absdiff", "min", "max", "shl", "shr", "mad", "set", "avrg")
_SECONDARY = ("", "add", "min", "max")
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
_PARTS = ("", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1")
_NAMES = {"t": "(.s32|.u32)", "op": "{.add|.min|.max}", "cmp": "(.eq|.ne|.lt|.le|.gt|.ge)"}
_SCALAR = Forms("<t><t><t>{.sat}<op>", **_NAMES)
_SHIFT = Forms("<t><t>.u32{.sat}(.clamp|.wrap)<op>", **_NAMES)
_MAD = Forms("<t><t><t>{.po}{.sat}{.shr7|.shr15}", **_NAMES)
_SET = Forms("<t><t><cmp><op>", **_NAMES)
_SIMD = Forms("<t><t><t>{.sat|.add}", **_NAMES)
_SIMD_SET = Forms("<t><t><cmp>{.add}", **_NAMES)


def _signs(words: list[str], count: int) -> tuple[int, ...]:
    return tuple(int(w == "s32") for w in words[:count])


def _part(op: Opcode, shape: str) -> int:
    part = shape.lstrip("s-")
    if part not in _PARTS:
        raise op.refuse(f"has the selector {part}; it takes {', '.join(_PARTS[1:])}")
    return _PARTS.index(part)


def _secondary(op: Opcode, words: list[str], shape: tuple[str, ...]) -> int:
    """Number of the secondary operation, which like a merged destination comes with a fourth operand."""
    second = next((k for k, name in enumerate(_SECONDARY) if k and name in words), 0)
    merges = shape[0] != "s"
    if second and merges:
        raise op.refuse("has a secondary operation and a part of the destination")
    if len(shape) != 3 + (second > 0 or merges):
        raise op.refuse(f"has {len(shape)} operands")
    return second


def _plan(op: Opcode, words: list[str], shape: tuple[str, ...], signs: tuple[int, ...], extra: int) -> Plan:
    """``imms``: kind, signs of d, a, b, saturation, secondary operation, parts of d, a, b, then what is its own."""
    if any("-" in s for s in shape):
        raise op.refuse("has a negated operand")
    second = _secondary(op, words, shape)
    parts = tuple(_part(op, s) for s in shape[:3])
    operands = ("w:b32^", "r:b32^", "r:b32^", *(("r:b32",) if len(shape) == 4 else ()))
    kind = _KINDS.index(op.root[1:])
    return Plan("video", operands, (kind, *signs, int("sat" in words), second, *parts, extra))


@decoder("vadd", "vsub", "vabsdiff", "vmin", "vmax")
def decode_scalar(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Arithmetic on a word, half or byte of each operand, with a saturated, combined or merged result."""
    words = op.rest
    _SCALAR.take(op)
    return _plan(op, words, shape, _signs(words, 3), 0)


@decoder("vshl", "vshr")
def decode_shift(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Shifts of a part of an operand."""
    words = op.rest
    _SHIFT.take(op)
    return _plan(op, words, shape, _signs(words, 3), int("wrap" in words))


@decoder("vset")
def decode_set(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Comparison; the result, 1 or 0, and the third operand are unsigned."""
    words = op.rest
    _SET.take(op)
    return _plan(op, words, shape, (0, *_signs(words, 2)), _COMPARE.index(words[2]))


@decoder("vmad")
def decode_mad(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Multiplication and addition with one negated operand or one added, and a shift of the result.

    Whether the result is signed follows from the operands, not from the type of the destination.
    """
    words = op.rest
    _MAD.take(op)
    if len(shape) != 4 or shape[0] != "s" or shape[3] not in ("s", "s-"):
        raise op.refuse("takes d, a, b, c without selectors of d and c")
    negative = [s.startswith("s-") for s in shape]
    product = negative[1] != negative[2]
    if ("po" in words and any(negative)) or (product and negative[3]):
        raise op.refuse("negates an operand that it cannot")
    signed = any(_signs(words[1:], 2)) or product or negative[3]
    shift = 7 if "shr7" in words else 15 if "shr15" in words else 0
    signs = (int(signed), *_signs(words[1:], 2))
    parts = (_part(op, shape[1]), _part(op, shape[2]))
    imms = (*signs, int("sat" in words), *parts, shift, int(product), int(negative[3]), int("po" in words))
    return Plan("vmad", ("w:b32", "r:b32^", "r:b32^", "r:b32^"), imms)


def _picks(op: Opcode, selector: str, parts: int, first: int) -> int:
    """The element of (b, a) behind each result, four bits each from the lowest on; ``first`` is the default."""
    letter = "h" if parts == 2 else "b"
    if not selector:
        return sum((first + k) << (4 * k) for k in range(parts))
    digits = [int(d) for d in selector[2:]]
    if selector[1] != letter or len(digits) != parts or max(digits) >= 2 * parts:
        raise op.refuse(f"has the selector {selector}")
    return sum(d << (4 * k) for k, d in enumerate(reversed(digits)))


def _mask(op: Opcode, selector: str, parts: int) -> int:
    """The results that are written."""
    if not selector:
        return (1 << parts) - 1
    digits = [int(d) for d in selector[2:]]
    if selector[1] != ("h" if parts == 2 else "b") or digits != sorted({*digits}, reverse=True) or digits[0] >= parts:
        raise op.refuse(f"has the mask {selector}")
    return sum(1 << d for d in digits)


@decoder(*(f"v{kind}{n}" for kind in ("add", "sub", "avrg", "absdiff", "min", "max", "set") for n in (2, 4)))
def decode_simd(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """The same on two halves or four bytes at a time, merged into or added to the third operand."""
    words = op.rest
    kind, parts = op.root[1:-1], int(op.root[-1])
    (_SIMD_SET if kind == "set" else _SIMD).take(op)
    if len(shape) != 4 or shape[3] != "s" or any("-" in s for s in shape):
        raise op.refuse(f"has {len(shape)} operands or a selector of the third")
    signs = (0, *_signs(words, 2)) if kind == "set" else _signs(words, 3)
    picks = (_mask(op, shape[0][1:], parts), _picks(op, shape[1][1:], parts, 0), _picks(op, shape[2][1:], parts, parts))
    extra = _COMPARE.index(words[2]) if kind == "set" else 0
    imms = (_KINDS.index(kind), *signs, int("sat" in words), int("add" in words), *picks, extra, parts)
    return Plan("video.simd", ("w:b32^", "r:b32^", "r:b32^", "r:b32"), imms)
