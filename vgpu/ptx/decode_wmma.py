"""Decoder of ``wmma.{load, store, mma}`` (PTX ISA, "Warp level matrix load, store and multiply-accumulate").

The ISA leaves open which element a register of a fragment holds. The virtual GPU keeps fragments as ``mma`` does:
pieces of eight lines and 16 bytes of k; accumulators in pieces of eight rows and eight columns. ``.f16`` operands have
eight registers in every shape: the pieces are repeated until there are eight.
"""

from __future__ import annotations

from dataclasses import dataclass

from .decode_float import ROUNDING
from .matrix_types import FORMATS
from .plan import Opcode, Plan, decoder

_WIDE = ("m16n16k16", "m32n8k16", "m8n32k16")
_SHAPES = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), _WIDE), "tf32": ("m16n16k8",), "f64": ("m8n8k4",),
    "s4": ("m8n8k32",), "u4": ("m8n8k32",), "b1": ("m8n8k128",),
}  # fmt: skip
_ACCUMULATORS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",),
    **dict.fromkeys(("s8", "u8", "s4", "u4", "b1"), ("s32",)),
}  # fmt: skip
_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f64": 64,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "f32": 32,
    "s32": 32,
}
_ALIGNMENT = 16  # bytes of lines, where the fragment is not smaller


def _size(shape: str) -> tuple[int, int, int]:
    rows, _, rest = shape[1:].partition("n")
    columns, _, depth = rest.partition("k")
    return int(rows), int(columns), int(depth)


@dataclass(frozen=True)
class _Fragment:
    """Registers of one operand: the x and y (line and place in it) of lane 0's first element of each."""

    type: str
    origins: tuple[tuple[int, int], ...]
    copies: int
    per: int  # elements of a register
    step: int  # y from one lane of a quad to the next

    @property
    def registers(self) -> int:
        return len(self.origins) * self.copies

    @property
    def descriptor(self) -> str:
        return f"{self.type if self.type in ('f32', 's32', 'f64') else 'b32'}*{self.registers}"


def _operand(type_: str, lines: int, depth: int, tall: bool) -> _Fragment:
    """A (``tall``) or B: pieces of 16 rows first, or of eight columns, then of k."""
    per = max(1, 32 // _BITS[type_])
    height = 16 if tall and lines > 8 else 8
    origins = tuple(
        (x + half, k) for x in range(0, lines, height) for k in range(0, depth, 4 * per) for half in range(0, height, 8)
    )
    return _Fragment(type_, origins, 8 // len(origins) if type_ == "f16" else 1, per, per)


def _accumulator(type_: str, rows: int, columns: int) -> _Fragment:
    height = min(rows, 16)
    per = 2 if type_ == "f16" else 1
    origins = tuple(
        (x + half, y + odd)
        for x in range(0, rows, height) for y in range(0, columns, 8) for half in range(0, height, 8)
        for odd in range(0, 2, per)
    )  # fmt: skip
    return _Fragment(type_, origins, 1, per, 2)


@decoder("wmma")
def decode_wmma(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """``wmma.load.{a, b, c}``, ``wmma.store.d`` and ``wmma.mma``."""
    name = op.next(("load", "store", "mma"))
    if name == "mma":
        return _mma(op)
    role = op.next(("a", "b", "c") if name == "load" else ("d",))
    op.next(("sync",))
    op.next(("aligned",))
    layout, size = op.next(("row", "col")), op.next()
    space = next((s for s in ("global", "shared", "shared::cta") if op.flag(s)), "generic")
    type_ = op.next()
    op.finish()
    operands = _SHAPES if role in "ab" else {t: _shapes_of_accumulator(t) for t in ("f16", "f32", "s32", "f64")}
    if size not in operands.get(type_, ()):
        raise op.refuse(f"has shape {size} and type {type_} that no wmma.{name}.{role} takes together")
    rows, columns, depth = _size(size)
    if role in "ab":
        by_lines = layout == ("row" if role == "a" else "col")
        if _BITS[type_] < 8 and not by_lines:
            raise op.refuse(f"has .{layout}, but {type_} elements lie by {'rows' if role == 'a' else 'columns'}")
        fragment = _operand(type_, rows if role == "a" else columns, depth, role == "a")
        extents = (rows if role == "a" else columns, depth)
    else:
        by_lines, extents = layout == "row", (rows, columns)
        fragment = _accumulator(type_, rows, columns)
    alignment = min(_ALIGNMENT, fragment.registers * max(4, _BITS[type_] // 8))
    imms = (
        len(fragment.origins), fragment.copies, fragment.per, fragment.step, _BITS[type_], int(by_lines), alignment,
        extents[1] if by_lines else extents[0], *(n for origin in fragment.origins for n in origin),
    )  # fmt: skip
    registers = f"{'w' if name == 'load' else 'r'}:{fragment.descriptor}"
    matrix = (registers, "addr") if name == "load" else ("addr", registers)
    return Plan(f"wmma.{name}.{space.partition(':')[0]}", (*matrix, "r:s32"), imms, optional=1)


def _shapes_of_accumulator(type_: str) -> tuple[str, ...]:
    return tuple(s for a, shapes in _SHAPES.items() if type_ in _ACCUMULATORS[a] for s in shapes)


def _mma(op: Opcode) -> Plan:
    """``wmma.mma{.op.popc}.sync.aligned.alayout.blayout.shape{.rnd}.d{.a.b}.c{.satfinite}``."""
    bitwise = op.choose(("and", "xor"), "")
    if bitwise:
        op.next(("popc",))
    op.next(("sync",))
    op.next(("aligned",))
    layouts = [op.next(("row", "col")) for _ in "ab"]
    size = op.next()
    rounding = op.choose(ROUNDING, "")
    saturate = op.flag("satfinite")
    types = tuple(op.rest)
    op.rest = []
    d, a, b, c = types if len(types) == 4 else (types[0], "f16", "f16", types[-1]) if len(types) == 2 else ("",) * 4
    problem = _problem(size, (d, a, b, c), layouts, (bitwise, rounding, saturate))
    if problem or (a == "f16" and len(types) == 4):
        raise op.refuse(problem or "names the types of f16 operands, which wmma does not")
    return _product(size, (d, a, b, c), (bitwise, rounding, saturate))


def _problem(size: str, types: tuple[str, str, str, str], layouts: list[str], extras: tuple[str, str, bool]) -> str:
    """Why the pieces of a wmma.mma do not go together, or nothing."""
    d, a, b, c = types
    bitwise, rounding, saturate = extras
    if a != b or size not in _SHAPES.get(a, ()) or d not in _ACCUMULATORS[a] or c not in _ACCUMULATORS[a]:
        return f"has shape {size} or types that no wmma.mma takes together"
    if _BITS[a] < 8 and layouts != ["row", "col"]:
        return f"takes .row.col for {a}"
    if saturate and a not in ("s8", "u8", "s4", "u4"):
        return "has .satfinite, which needs integer operands"
    if rounding and a != "f64":
        return f"has .{rounding}, which needs f64"
    if bool(bitwise) != (a == "b1"):
        return "takes .and.popc or .xor.popc for b1 operands, and only there"
    return ""


def _product(size: str, types: tuple[str, str, str, str], extras: tuple[str, str, bool]) -> Plan:
    d, a, b, c = types
    bitwise, rounding, saturate = extras
    rows, columns, depth = _size(size)
    fragments = _operand(a, rows, depth, True), _operand(b, columns, depth, False)
    results = _accumulator(d, rows, columns), _accumulator(c, rows, columns)
    places = (results[0], *fragments, results[1])
    operands = tuple(f"{role}:{f.descriptor}" for role, f in zip("wrrr", places, strict=True))
    if a == "b1":
        return Plan("mma.b1", operands, (1, int(bitwise == "and"), rows))
    if a == "f64":
        return Plan("mma.f64", operands, (rows, depth, ROUNDING[rounding or "rn"]))
    chunks = depth * _BITS[a] // 128
    imms = (
        FORMATS[a], FORMATS[b], int(d == "s32"), chunks, int(saturate), rows, columns, fragments[0].registers,
        fragments[1].registers, int(c == "f16"), int(d == "f16"),
    )  # fmt: skip
    return Plan("wmma.mma", operands, imms)
