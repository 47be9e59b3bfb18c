"""How one spelling of an opcode is decoded: which engine handler runs it and what its operands are.

A decoder is called once per spelling and operand shape, not once per statement, so it may be leisurely. It takes every
modifier from the :class:`Opcode` or refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..errors import UnsupportedInstruction


class Opcode:
    """An opcode spelling whose modifiers are taken one by one; :meth:`finish` refuses what is left."""

    def __init__(self, text: str, target: str = "") -> None:
        self.text = text
        self.target = target
        self.root, *self.rest = text.split(".")

    def flag(self, name: str) -> bool:
        """Whether modifier ``name`` is there; it is taken."""
        if name in self.rest:
            self.rest.remove(name)
            return True
        return False

    def choose(self, choices: Iterable[str], default: str | None = None) -> str:
        """Takes the first modifier that is one of ``choices``; ``default`` when there is none.

        Raises:
            UnsupportedInstruction: none is there and there is no default.
        """
        wanted = tuple(choices)
        for name in self.rest:
            if name in wanted:
                self.rest.remove(name)
                return name
        if default is None:
            raise self.refuse(f"needs one of .{', .'.join(wanted)}")
        return default

    def next(self, choices: Iterable[str] | None = None) -> str:
        """Takes the next modifier in order, which must be one of ``choices`` when they are given."""
        if not self.rest or (choices is not None and self.rest[0] not in tuple(choices)):
            found = f".{self.rest[0]}" if self.rest else "nothing"
            raise self.refuse(f"has {found} where {self.root} takes .{', .'.join(choices or ('a modifier',))}")
        return self.rest.pop(0)

    def drop(self, *names: str) -> None:
        """Takes modifiers that change nothing here (cache hints, ``sync``, ``aligned``)."""
        self.rest = [m for m in self.rest if m not in names]

    def finish(self) -> None:
        """Refuses any modifier nobody took."""
        if self.rest:
            raise self.refuse(f"has unsupported modifier .{self.rest[0]}")

    def refuse(self, why: str) -> UnsupportedInstruction:
        """The error to raise for this spelling."""
        return UnsupportedInstruction(f"{self.text} {why}")


@dataclass(frozen=True)
class Plan:
    """What the engine does for one spelling.

    ``handler`` is a name of the engine's registry. ``operands`` has one descriptor per PTX operand:

    | descriptor | PTX | engine ``ops`` | engine ``imm`` |
    |---|---|---|---|
    | ``"w:f32"`` ``"r:u64"`` ``"rw:f32"`` | register, ``_``, literal (typed), symbol | one slot | |
    | ``"w:f32*4"`` ``"r:b32*2"`` | ``{a, b, c, d}`` (or one register for ``*1``) | n slots | |
    | ``"w:pred"`` ``"r:pred"`` | ``p``, ``!p``, ``0``/``1``, ``_`` | one predicate | |
    | ``"w:b32|pred"`` | ``d|p`` or ``d`` or ``_`` | slot, predicate (sink when not there) | |
    | ``"r:b32^"`` | ``-r``, ``r.h0``, ``r.b3210`` (see the shape) | one slot | |
    | ``"addr"`` | ``[reg]``, ``[reg+imm]``, ``[sym+imm]``, ``[imm]`` | slot of the base | offset, base bytes (4 or 8) |
    | ``"tensor*2"`` | ``[map, {c0, c1}]`` | map base slot (8 bytes), n coordinates (s32) | offset |
    | ``"imm"`` | integer literal | | value |
    | ``"imm<4"`` ``"imm=4,8"`` ``"imm@24,256,8"`` | below 4; 4 or 8; 24, 32 to 256 | | value |
    | ``"size"`` | register, or predicate (take nothing) | one slot or predicate | whether it is a predicate |
    | ``"_:b64"`` | ``_`` alone | a sink | |
    | ``"w:b128"`` ``"r:b128?"`` | 128-bit register | slots of its halves, the lower first | (8) |
    | ``"label"`` | label of this function | | pc |
    | ``"w:b32?"``, ``"r:u32?"`` | register of any width | one slot | its bytes |

    Operand imms come in operand order, after ``imms`` of the plan itself. ``r:`` types decide how literals are read
    (s8..u64, b8..b64, f16, bf16, f32, f64, tf32, pred). Registers of at most 32 bits use a 32-bit slot; 64-bit
    registers are 32 lanes of uint64. ``optional`` trailing operands may be missing from the statement; then neither
    ops nor imms are emitted for them (look at ``op_count``). Destinations that are also read are ``rw:``.
    """

    handler: str
    operands: tuple[str, ...]
    imms: tuple[int, ...] = ()
    optional: int = 0
    reads_undefined: bool = False  # its register sources may be undefined without a finding
    sinks: tuple[str, ...] = ()  # destinations in front that the statement does not name
    unread: int = 0  # trailing operands of the statement that have no meaning here
    zero: bool = False  # append a source that is 0


Decoder = Callable[[Opcode, tuple[str, ...]], Plan]
DECODERS: dict[str, Decoder] = {}


def decoder(*roots: str) -> Callable[[Decoder], Decoder]:
    """Registers a decoder for opcodes whose first word is one of ``roots``."""

    def register(function: Decoder) -> Decoder:
        for root in roots:
            DECODERS[root] = function
        return function

    return register
