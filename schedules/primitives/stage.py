"""``stage(handle, tensor)``: a tile of a global tensor on its way through shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dsl import (
    GEMMS,
    Entry,
    Loop,
    Operation,
    Program,
    Region,
    Target,
    buffers,
    gemm_of,
    language,
    stamp,
    stmt_span,
    tirx,
)
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..errors import IllegalStep
from ..evidence import allocated, dropped
from ..handles import find, whole_number
from ..indices import block_of_loads
from ..launches import enclosing_grid
from ..placement import FRAGMENT, SHARED
from ..primitive import Lowered, written


@dataclass(frozen=True)
class Stage:
    """Send a copy between global memory and a fragment, or the reads of ``tensor`` in a parallel loop, through a new
    shared tile.

    ::

        T.copy(C_l, C[..])                 ->      T.copy(C_l, C_l_staged)
                                                   T.copy(C_l_staged, C[..])       # whole lines; TMA store where it is

        for i, j in T.Parallel(m, n):      ->      T.copy(A[x : x + m, y : y + n], A_staged)
            B_l[i, j] = A[x + i, y + j]            for i, j in T.Parallel(m, n): B_l[i, j] = A_staged[i, j]

    The tile is named after what it stages: ``C_l_staged`` for a store, ``A_staged`` for a read. With ``parts`` a copy
    goes in so many pieces, by columns and one after the other, through a tile of one piece's size.
    """

    handle: str
    tensor: str = ""
    parts: int = 1

    name: ClassVar[str] = "stage"
    words: ClassVar[str] = "send {handle} {tensor} through shared memory, in pieces: {parts}"

    def check(self, program: Program, target: Target) -> None:
        """A copy between global memory and a fragment, or a parallel loop that reads blocks of the tensor."""
        whole_number(self, "parts", self.parts, 1, 16)
        entry = self._entry(program)
        detail = entry.detail
        if isinstance(detail, Operation) and detail.name == "copy":
            self._check_parts(program, entry, detail)
            scopes = [region.scope for region in detail.regions]
            if scopes not in (["global", FRAGMENT], [FRAGMENT, "global"]):
                raise IllegalStep(
                    f"{written(self)}: {entry.label!r} goes from {scopes[0]} to {scopes[1]}; only what goes between "
                    "global memory and a fragment is staged",
                    span=entry.span,
                    remedy="leave the step out",
                )
        elif isinstance(detail, Loop) and detail.kind == "parallel":
            self._reads(entry)
        else:
            raise IllegalStep(
                f"{written(self)}: {entry.label!r} is no copy and no parallel loop",
                span=entry.span,
                remedy="name a copy, or a parallel loop and the tensor it reads",
            )

    def _check_parts(self, program: Program, entry: Entry, operation: Operation) -> None:
        extent = operation.regions[1].extents[-1]
        source = operation.regions[0]
        details = [other.detail for other in program.outline().ops]
        sums = [gemm_of(d).c.buffer for d in details if isinstance(d, Operation) and d.name in GEMMS]
        if self.parts > 1 and not any(source.buffer.same_as(buffer) for buffer in sums):
            raise IllegalStep(
                f"{written(self)}: only the accumulator of a product can go in pieces, {source.name} has no layout of "
                "its own",
                span=entry.span,
                remedy="leave parts out",
            )
        if self.parts > 1 and (not isinstance(extent, int) or extent % (8 * self.parts)):
            raise IllegalStep(
                f"{written(self)}: {extent} columns do not make {self.parts} pieces of whole eights",
                span=entry.span,
                remedy="use fewer parts",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Add the tile and the copy, and let the rest use it."""
        entry = self._entry(program)
        if isinstance(entry.node, tirx.For):
            return self._staged_reads(program, entry)
        assert isinstance(entry.detail, Operation)
        source, goal = entry.detail.regions
        outside, named = (source, source) if source.scope == "global" else (goal, source)
        extents = [*outside.extents[:-1], int(outside.extents[-1]) // self.parts]
        tile = self._tile(program, named.name, extents, outside.buffer.dtype)
        copies = []
        for part in range(self.parts):
            piece, place = _piece(source, part, self.parts), _piece(goal, part, self.parts)
            copies += [language.copy(piece, tile), language.copy(tile, place)]
        statement = tirx.SeqStmt([tirx.Evaluate(copy) for copy in copies])
        return self._put(program, entry, tile, statement)

    def effect(self, artifact: Lowered) -> None:
        """The kernel has the tile, in shared memory."""
        sides = self.handle.removeprefix("copy ").partition("#")[0].split("->")
        names = [self.tensor] if self.tensor else sides
        if not any(allocated(artifact.cuda, f"{side}_staged") == "shared" for side in names):
            raise dropped(self, artifact, "no staged tile in shared memory")

    def locate(self, program: Program) -> SourceSpan | None:
        """The copy or loop."""
        return self._entry(program).span

    def _entry(self, program: Program) -> Entry:
        return find(self, program, self.handle, "op", "loop")

    def _reads(self, entry: Entry) -> Any:
        found = block_of_loads(entry.node, self.tensor)
        if isinstance(found, str):
            raise IllegalStep(
                f"{written(self)}: {entry.label!r} {found}",
                span=entry.span,
                remedy="name a tensor that the loop reads as one block: a loop variable and a start in each dimension",
            )
        return found

    def _staged_reads(self, program: Program, entry: Entry) -> Program:
        reads = self._reads(entry)
        buffer = reads.buffer
        tile = self._tile(program, str(buffer.name), reads.extents, buffer.dtype)
        copy = language.copy(_block(buffer, reads.begins, reads.extents), tile)

        def use_tile(node: Any) -> Any:
            return tirx.BufferLoad(tile, list(reads.indices)) if node.buffer.same_as(buffer) else None

        loop = tirx.stmt_functor.ir_transform(entry.node, None, use_tile, ["tirx.BufferLoad"])
        return self._put(program, entry, tile, tirx.SeqStmt([tirx.Evaluate(copy), loop]))

    def _tile(self, program: Program, name: str, extents: Sequence[Any], dtype: Any) -> Any:
        return buffers.declared(extents, dtype, buffers.fresh_name(program, f"{name}_staged"), SHARED)

    def _put(self, program: Program, entry: Entry, tile: Any, statement: Any) -> Program:
        launch = enclosing_grid(program, entry)
        changed = edit.replace(program, entry.node, lambda old: stamp(statement, stmt_span(old)))
        same = changed.outline().grids[program.outline().grids.index(launch)]
        return buffers.add_buffer(changed, same.node, tile)


def _piece(region: Region, part: int, parts: int) -> Any:
    width = int(region.extents[-1]) // parts
    begins = [*region.begins[:-1], region.begins[-1] + part * width]
    return _block(region.buffer, begins, [*region.extents[:-1], width])


def _block(buffer: Any, begins: Sequence[Any], extents: Sequence[Any]) -> Any:
    from tilewright.dsl import tvm

    ranges = [tvm.ir.Range.from_min_extent(begin, extent) for begin, extent in zip(begins, extents, strict=True)]
    return tirx.BufferRegion(buffer, ranges)
