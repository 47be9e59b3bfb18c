"""``place(tile, where)``: which memory holds a tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import GEMMS, OPEN_SCOPE, Entry, Operation, Program, Target, buffers, gemm_of
from tilewright.errors import SourceSpan

from ..errors import IllegalStep, IllegalValue
from ..evidence import allocated, dropped
from ..handles import find
from ..placement import FRAGMENT, REDUCTIONS, SHARED
from ..primitive import Lowered, written

_SCOPES = {"shared": SHARED, "fragment": FRAGMENT}


@dataclass(frozen=True)
class Place:
    """Keep ``tile`` in shared memory or in a fragment, also where it was written to live elsewhere.

    ::

        A_t = T.alloc_tile((128, 32), "float16")      ->      A_t = T.alloc_shared((128, 32), "float16")

    A tile left open that no step places goes where its use suggests. A fragment can be operand A of a matrix product,
    not operand B; an accumulator is always a fragment.
    """

    tile: str
    where: str

    name: ClassVar[str] = "place"
    words: ClassVar[str] = "keep {tile} in {where} memory"

    def check(self, program: Program, target: Target) -> None:
        """The products that use the tile can take it there."""
        if self.where not in _SCOPES:
            raise IllegalValue(
                f"{written(self)}: where must be one of {', '.join(map(repr, _SCOPES))}",
                span=self.locate(program),
                values={"where": repr(self.where)},
            )
        entry = self._tile(program)
        scope = str(entry.node.scope())
        if scope not in (*_SCOPES.values(), OPEN_SCOPE):
            raise IllegalStep(
                f"{written(self)}: {self.tile!r} is in {scope}, only a tile in shared memory or a fragment can move",
                span=entry.span,
                remedy="leave the step out",
            )
        if scope == _SCOPES[self.where]:
            raise IllegalStep(
                f"{written(self)}: {self.tile!r} is there already", span=entry.span, remedy="leave the step out"
            )
        for other in program.outline().ops:
            self._check_use(other, entry)

    def _check_use(self, other: Entry, tile: Entry) -> None:
        operation = other.detail
        if not isinstance(operation, Operation):
            return
        mine = any(region.buffer.same_as(tile.node) for region in operation.regions)
        if mine and self.where == "shared" and operation.name.startswith(REDUCTIONS):
            raise IllegalStep(
                f"{written(self)}: {other.label} works on {self.tile!r} in registers",
                span=other.span,
                remedy="copy it to a shared tile of its own",
            )
        if operation.name not in GEMMS:
            return
        gemm = gemm_of(operation)
        if self.where == "shared" and gemm.c.buffer.same_as(tile.node):
            raise IllegalStep(
                f"{written(self)}: {self.tile!r} is the accumulator of {other.label}, which lives in registers",
                span=other.span,
                remedy=f"copy it to a shared tile after {other.label}",
            )
        if self.where == "fragment" and gemm.b.buffer.same_as(tile.node):
            raise IllegalStep(
                f"{written(self)}: {self.tile!r} is operand B of {other.label}, which is read from shared memory",
                span=other.span,
                remedy="place operand A in a fragment, or leave the step out",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Put a buffer of the new scope in the tile's place."""
        tile = self._tile(program).node
        return buffers.swap_buffer(program, tile, buffers.with_scope(tile, _SCOPES[self.where]))

    def effect(self, artifact: Lowered) -> None:
        """The kernel declares the tile as shared memory, or as an array of each thread."""
        found = allocated(artifact.cuda, self.tile)
        if found != self.where:
            raise dropped(self, artifact, f"{self.tile} is {found or 'not in the code'}")

    def locate(self, program: Program) -> SourceSpan | None:
        """The allocation."""
        return self._tile(program).span

    def _tile(self, program: Program) -> Entry:
        return find(self, program, self.tile, "buffer")
