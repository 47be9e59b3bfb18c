"""Operands: registers, literals, symbols and addresses as engine words."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Container
from dataclasses import dataclass

from .. import _engine
from .parse import TYPE_BYTES, syntax_error

PRED, R32, R64, CONST32, CONST64, SINK32, SINK64 = range(7)
READ, WRITE = 1 << 3, 2 << 3
NEGATED = 1 << 5
INDEX = 6
VALUE, VARIABLE, SPECIAL = range(3)
TRUE = 1 << INDEX  # predicate 1 always holds
_SPECIALS: dict[str, int] = _engine.specials()
_NUMBERED = re.compile(r"(%?[A-Za-z_$][\w$]*?)(\d+)$")
_FLOATS = {"f16", "bf16", "f32", "f64", "tf32", "f16x2", "bf16x2"}
_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]{1,32})|0[bB]([01]{1,128})|(0[0-7]{0,40}|[1-9]\d{0,38}))[uU]?$")
_REGISTERS = re.compile(r"([A-Za-z_$%][\w$]*)(?:<(\d{1,6})>)?$")
# Parameters of the shared ``Symbol.space``: kernel parameters live in "param", those of functions in "local".


@dataclass(frozen=True)
class Symbol:
    """A variable: its state space and its address there (a variable number for ``global``)."""

    space: str
    value: int
    size: int = 0  # bytes, where they matter


def literal(text: str, type_: str) -> int | None:
    """The bits of a literal of PTX type ``type_``, or None when ``text`` is no literal."""
    size = TYPE_BYTES[type_]
    first = text[:2]
    if first in ("0f", "0F") and len(text) == 10:
        bits = _hexadecimal(text)
        if bits is None:
            return None
        return (
            struct.unpack("<Q", struct.pack("<d", *struct.unpack("<f", struct.pack("<I", bits))))[0]
            if size == 8 and type_ == "f64"
            else bits
        )
    if first in ("0d", "0D") and len(text) == 18:
        bits = _hexadecimal(text)
        if bits is None or size == 8:
            return bits
        return _float_bits(struct.unpack("<d", struct.pack("<Q", bits))[0], "f32")
    m = _INTEGER.match(text)
    if m is None:
        return _decimal_float(text, type_)
    sign, hexadecimal, binary, decimal = m.groups()
    if hexadecimal:
        value = int(hexadecimal, 16)
    elif binary:
        value = int(binary, 2)
    else:
        value = int(decimal, 8) if len(decimal) > 1 and decimal[0] == "0" else int(decimal)
    if type_ in ("f32", "f64"):
        return _float_bits(float(-value if sign == "-" else value), type_)
    return (-value if sign == "-" else value) & ((1 << (8 * size)) - 1)


def _hexadecimal(text: str) -> int | None:
    """The bits of ``0f3F800000`` or ``0d...``."""
    return int(text[2:], 16) if re.fullmatch(r"[0-9a-fA-F]+", text[2:]) else None


def _float_bits(value: float, type_: str) -> int:
    if type_ == "f64":
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    try:
        data = struct.pack("<f", value)
    except OverflowError:
        data = struct.pack("<f", math.copysign(math.inf, value))
    return int(struct.unpack("<I", data)[0])


def _decimal_float(text: str, type_: str) -> int | None:
    if type_ not in ("f32", "f64") or not re.match(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?$", text):
        return None
    return _float_bits(float(text), type_)


class Names:
    """Registers, constants and symbols of the functions of one kernel."""

    def __init__(self, symbols: dict[str, Symbol]) -> None:
        self.words: dict[str, int] = {}  # name -> engine word without a role
        self.bytes: dict[str, int] = {}  # declared width of registers, 0 for predicates
        self.prefixes: dict[str, str] = {}
        self.symbols = symbols
        self.widths = bytearray()
        self.predicates = 2
        self.constants: list[tuple[int, bool, int, int]] = []
        self._constant_index: dict[tuple[int, bool, int, int], int] = {}
        self._undo: list[list[tuple[str, int | None, int]]] = [[]]

    # --- scopes -------------------------------------------------------------------------------------------------
    def open(self) -> None:
        """Enters a ``{`` scope."""
        self._undo.append([])

    def close(self) -> None:
        """Leaves a scope: names it declared mean again what they meant outside."""
        for name, word, size in reversed(self._undo.pop()):
            if word is None:
                del self.words[name], self.bytes[name]
            else:
                self.words[name], self.bytes[name] = word, size

    def enter_function(self) -> None:
        """Forgets the registers of the previous function."""
        self.words, self.bytes, self.prefixes = {}, {}, {}
        self._undo = [[]]

    # --- registers ----------------------------------------------------------------------------------------------
    def declare(self, text: str, line: int) -> None:
        """A ``.reg`` declaration."""
        m = re.match(r"\.reg\s*\.(\w+)\s+(.*)", text, re.S)
        if m is None or m.group(1) not in TYPE_BYTES:
            raise syntax_error("a register declaration is malformed or of an unsupported type", line, text)
        for piece in m.group(2).split(","):
            found = _REGISTERS.match(piece.strip())
            if found is None:
                raise syntax_error("a register declaration is malformed", line, piece)
            name, count = found.groups()
            if count is None:
                self._bind(name, m.group(1))
            elif len(self._undo) == 1:
                self.prefixes[name] = m.group(1)
            else:
                for k in range(int(count)):
                    self._bind(f"{name}{k}", m.group(1))

    def _bind(self, name: str, type_: str) -> int:
        if type_ == "pred":
            word = self.predicates << INDEX | PRED
            self.predicates += 1
            size = 0
        else:
            size = TYPE_BYTES[type_]
            word = len(self.widths) << INDEX | (R64 if size >= 8 else R32)
            self.widths.extend((8, 8) if size == 16 else (8,) if size == 8 else (4,))
        if len(self._undo) > 1:
            self._undo[-1].append((name, self.words.get(name), self.bytes.get(name, 0)))
        self.words[name] = word
        self.bytes[name] = size
        return word

    def register(self, name: str) -> int | None:
        """The word of a register, or None when there is none of this name."""
        word = self.words.get(name)
        if word is not None:
            return word
        m = _NUMBERED.match(name)
        if m is None or m.group(1) not in self.prefixes:
            return None
        scopes, self._undo = self._undo, [[]]  # belongs to the function, not to the scope that names it first
        word = self._bind(name, self.prefixes[m.group(1)])
        self._undo = scopes
        return word

    # --- constants ----------------------------------------------------------------------------------------------
    def constant(self, kind: int, wide: bool, value: int, variable: int = 0) -> int:
        """The word of a constant slot."""
        if value >= 1 << 63:
            value -= 1 << 64
        key = (kind, wide, value, variable)
        index = self._constant_index.get(key)
        if index is None:
            index = self._constant_index[key] = len(self.constants)
            self.constants.append(key)
        return index << INDEX | (CONST64 if wide else CONST32)

    def symbol(self, text: str, wide: bool, line: int) -> int | None:
        """The word of ``symbol`` or ``symbol+offset``, or None."""
        name, _, offset = text.partition("+")
        found = self.symbols.get(name.strip())
        if found is None:
            return None
        addend = signed_offset(offset, line) if offset.strip() else 0
        if found.space == "global":
            return self.constant(VARIABLE, True, addend, found.value)
        return self.constant(VALUE, wide, found.value + addend)

    def source(self, text: str, type_: str, line: int) -> int:
        """The word of a source operand of PTX type ``type_``: register, literal, special register or symbol."""
        word = self.register(text)
        wide = TYPE_BYTES[type_] == 8
        if word is not None:
            return word
        if text in _SPECIALS:
            return self.constant(SPECIAL, wide, _SPECIALS[text])
        value = literal(text, type_)
        if value is not None:
            return self.constant(VALUE, wide, value)
        word = self.symbol(text, wide, line)
        if word is not None:
            return word
        if text == "WARP_SZ":
            return self.constant(VALUE, wide, 32)
        raise syntax_error(f"{text!r} is not a register, literal, special register or variable", line)


# An operand encoder appends to ops and imms what one operand text means.
Encode = Callable[[str, list[int], list[int], int], None]


def scalar(names: Names, role: int, type_: str, any_width: bool) -> Encode:
    """Encoder of ``"r:u32"``, ``"w:b64?"`` and the like."""
    size = TYPE_BYTES[type_]
    wide = size == 8
    sink = SINK64 if wide else SINK32
    writes = role & WRITE

    def encode(text: str, ops: list[int], imms: list[int], line: int) -> None:
        word = names.words.get(text)
        if word is None:
            word = sink if text == "_" else names.source(text, type_, line)
        kind = word & 7
        if any_width:
            width = names.bytes.get(text, size)
            if kind == PRED or width < size or width == 16 or (width == 8 != size and type_ in _FLOATS):
                raise syntax_error(f"operand {text!r} cannot hold a value of type .{type_}", line)
            imms.append(width)
        elif kind == PRED or (kind in (R64, CONST64, SINK64)) != wide or names.bytes.get(text) == 16:
            raise syntax_error(f"operand {text!r} does not have the {8 * size} bits of type .{type_}", line)
        if writes and kind in (CONST32, CONST64):
            raise syntax_error(f"{text!r} cannot be written", line)
        ops.append(word | role)

    return encode


def selected(names: Names, role: int) -> Encode:
    """Encoder of ``"r:b32^"``: a 32-bit register whose sign and selector the plan already knows."""
    whole = scalar(names, role, "b32", False)

    def encode(text: str, ops: list[int], imms: list[int], line: int) -> None:
        whole(re.sub(r"^-(?=%)|\.[bh][0-7]{1,4}$", "", text), ops, imms, line)

    return encode


def predicate(names: Names, role: int) -> Encode:
    """Encoder of ``"r:pred"`` and ``"w:pred"``."""

    def encode(text: str, ops: list[int], _imms: list[int], line: int) -> None:
        ops.append(predicate_word(names, text, line, role) | role)

    return encode


def predicate_word(names: Names, text: str, line: int, role: int = READ) -> int:
    """The word of ``p``, ``_`` and, where it is read, ``!p`` or a literal truth value."""
    negated = text.startswith("!")
    word = names.register(text.lstrip("! "))
    if word is not None and word & 7 == PRED and not (negated and role & WRITE):
        return word | NEGATED if negated else word
    if text == "_":
        return PRED
    value = literal(text.lstrip("! "), "b32")
    if value is None or role & WRITE:
        raise syntax_error(f"{text!r} is not a predicate", line)
    return (TRUE | PRED) | (0 if bool(value) != negated else NEGATED)


def vector(names: Names, role: int, type_: str, count: int, any_width: bool) -> Encode:
    """Encoder of ``"r:f32*4"``: ``{a, b, c, d}``, or one register for ``*1``."""
    one = scalar(names, role, type_, any_width)

    def encode(text: str, ops: list[int], imms: list[int], line: int) -> None:
        parts = [p.strip() for p in text[1:-1].split(",")] if text[0] == "{" else [text]
        if len(parts) != count:
            raise syntax_error(f"{text} has {len(parts)} elements where {count} belong", line)
        before = len(imms)
        for part in parts:
            one(part, ops, imms, line)
        if any_width:
            imms[before:] = [_common_width(names, parts, imms[before], line)]

    return encode


def _common_width(names: Names, parts: list[str], default: int, line: int) -> int:
    """The width of the registers of a vector: one for all of them."""
    widths = {names.bytes[p] for p in parts if p in names.bytes}
    if len(widths) > 1:
        raise syntax_error(f"the registers of {{{', '.join(parts)}}} differ in width", line)
    return widths.pop() if widths else default


def pair(names: Names, role: int, type_: str) -> Encode:
    """Encoder of ``"w:b32|pred"``: ``d|p`` or ``d``."""
    value = predicate(names, role) if type_ == "pred" else scalar(names, role, type_, False)

    def encode(text: str, ops: list[int], imms: list[int], line: int) -> None:
        first, bar, second = text.partition("|")
        value(first.strip(), ops, imms, line)
        ops.append((predicate_word(names, second.strip(), line, role) if bar else PRED) | role)

    return encode


def address(names: Names) -> Encode:
    """Encoder of ``"addr"``: base slot; offset and base bytes."""

    def encode(text: str, ops: list[int], imms: list[int], line: int) -> None:
        if text[0] != "[":
            raise syntax_error(f"{text!r} is not an address", line)
        base, offset = split_address(text[1:-1].strip(), line)
        word = names.words.get(base)
        if word is None:
            word = names.register(base)
        if word is None:
            word = names.symbol(base, True, line)
        if word is None:
            value = literal(base, "u64")
            if value is None:
                raise syntax_error(f"{base!r} is not a register or variable", line)
            word = names.constant(VALUE, True, value)
        kind = word & 7
        if kind == PRED or names.bytes.get(base, 8) not in (4, 8):
            raise syntax_error(f"{base!r} cannot hold an address", line)
        ops.append(word | READ)
        imms.append(offset)
        imms.append(4 if kind in (R32, CONST32) else 8)

    return encode


def split_address(text: str, line: int) -> tuple[str, int]:
    """``base`` and the literal behind ``+`` or ``-``."""
    base, plus, offset = text.partition("+")
    if not plus:
        base, minus, offset = text.partition("-")
        if not minus or not base:
            return text, 0
        offset = "-" + offset.strip()
    return base.strip(), signed_offset(offset, line)


def signed_offset(text: str, line: int) -> int:
    """The literal behind ``+`` of an address, within 64 bits."""
    value = literal(text.strip(), "s64")
    if value is None:
        raise syntax_error(f"offset {text.strip()[:40]!r} is not a number", line)
    return value - (1 << 64) if value >= 1 << 63 else value


def tensor(names: Names, count: int) -> Encode:
    """Encoder of ``"tensor*2"``: ``[map, {c0, c1}]``."""
    base = address(names)
    coordinate = scalar(names, READ, "s32", False)

    def encode(text: str, ops: list[int], imms: list[int], line: int) -> None:
        m = re.match(r"\[([^,]*),\s*\{([^}]*)\}\s*\]$", text)
        parts = [p.strip() for p in m.group(2).split(",")] if m else []
        if m is None or len(parts) != count:
            raise syntax_error(f"{text!r} is not a tensor map with {count} coordinates", line)
        base(f"[{m.group(1).strip()}]", ops, imms, line)
        imms.pop()  # the base is always 64 bits
        for part in parts:
            coordinate(part, ops, imms, line)

    return encode


def immediate(_names: Names) -> Encode:
    """Encoder of ``"imm"``."""

    def encode(text: str, _ops: list[int], imms: list[int], line: int) -> None:
        value = literal(text, "s64")
        if value is None:
            raise syntax_error(f"{text!r} is not an integer literal", line)
        imms.append(value - (1 << 64) if value >= 1 << 63 else value)

    return encode


def limited(names: Names, opcode: str, rule: str) -> Encode:
    """Encoder of ``"imm<4"``, ``"imm=4,8,16"`` (one of these) and ``"imm@24,256,8"`` (first, last, step)."""
    whole = immediate(names)
    numbers = [int(n) for n in rule[1:].split(",")]
    if rule[0] == "=":
        allowed: Container[int] = tuple(numbers)
        what = " or ".join(map(str, numbers))
    elif rule[0] == "<":
        allowed, what = range(numbers[0]), f"one of 0 to {numbers[0] - 1}" if numbers[0] > 1 else "0"
    else:
        first, last, step = numbers
        allowed = range(first, last + 1, step)
        what = f"one of {first} to {last}" + (f", a multiple of {step}" if step > 1 else "")

    def encode(text: str, ops: list[int], imms: list[int], line: int) -> None:
        whole(text, ops, imms, line)
        if imms[-1] not in allowed:
            raise syntax_error(f"{opcode}: {text} is not {what}", line)

    return encode


def wide(names: Names, role: int, any_width: bool) -> Encode:
    """Encoder of ``"r:b128"``: the two halves of a 128-bit register, the lower first."""

    def encode(text: str, ops: list[int], imms: list[int], line: int) -> None:
        word, value = names.register(text), literal(text, "b128")
        if names.bytes.get(text) == 16 and word is not None:
            halves = [word, word + (1 << INDEX)]
        elif role & WRITE and text == "_":
            halves = [SINK64, SINK64]
        elif role == READ and value is not None:
            halves = [names.constant(VALUE, True, value >> shift & (1 << 64) - 1) for shift in (0, 64)]
        else:
            raise syntax_error(f"operand {text!r} does not have the 128 bits of type .b128", line)
        ops.extend(half | role for half in halves)
        if any_width:
            imms.append(8)

    return encode


def size_or_predicate(names: Names) -> Encode:
    """Encoder of ``"size"``: bytes (imm 0), or a predicate that tells to take none (imm 1)."""
    number = scalar(names, READ, "u32", False)
    truth = predicate(names, READ)

    def encode(text: str, ops: list[int], imms: list[int], line: int) -> None:
        word = names.register(text.lstrip("! "))
        is_predicate = word is not None and word & 7 == PRED
        (truth if is_predicate else number)(text, ops, imms, line)
        imms.append(int(is_predicate))

    return encode


def unnamed(type_: str) -> Encode:
    """Encoder of ``"_:b64"``: a destination that must be ``_``."""
    sink = SINK64 if TYPE_BYTES[type_] == 8 else SINK32

    def encode(text: str, ops: list[int], _imms: list[int], line: int) -> None:
        if text != "_":
            raise syntax_error(f"operand {text!r} must be _: there is no result", line)
        ops.append(sink | WRITE)

    return encode


_FIXED = {"addr": address, "imm": immediate, "size": size_or_predicate}


def make_encoder(names: Names, descriptor: str, opcode: str = "") -> Encode:
    """The encoder of one operand descriptor of a :class:`~.plan.Plan` (labels are the statement encoder's)."""
    fixed = _FIXED.get(descriptor)
    if fixed is not None:
        return fixed(names)
    if descriptor.startswith("imm"):
        return limited(names, opcode, descriptor[3:])
    if descriptor.startswith("tensor*"):
        return tensor(names, int(descriptor[7:]))
    role, _, kind = descriptor.partition(":")
    if role == "_":
        return unnamed(kind)
    return _registers(names, {"r": READ, "w": WRITE, "rw": READ | WRITE}[role], kind)


def _registers(names: Names, role: int, kind: str) -> Encode:
    if kind.endswith("|pred"):
        return pair(names, role, kind[:-5])
    if kind == "pred":
        return predicate(names, role)
    if kind in ("b128", "b128?"):
        return wide(names, role, kind[-1] == "?")
    if kind == "b32^":
        return selected(names, role)
    type_, _, count = kind.partition("*")
    any_width = type_.endswith("?")
    type_ = type_.rstrip("?")
    if count:
        return vector(names, role, type_, int(count), any_width)
    return scalar(names, role, type_, any_width)
