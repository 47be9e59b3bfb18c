"""``alias(tile, other)``: two shared tiles in one place, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dsl import BufferInfo, Entry, Loop, Program, Target, buffers, tirx
from tilewright.errors import SourceSpan

from ..errors import IllegalStep
from ..evidence import allocated, dropped
from ..handles import tile
from ..launches import enclosing_grid
from ..placement import SHARED
from ..primitive import Lowered, written


@dataclass(frozen=True)
class Alias:
    """Keep ``other`` in the memory of ``tile``: from its first write on, what ``tile`` held is gone.

    ::

        A_s = T.alloc_shared((64, 64))      ->      A_s = T.alloc_shared((64, 64))
        B_s = T.alloc_shared((64, 64))              use A_s; sync; use A_s as B_s
        use A_s; use B_s

    Both have one shape and dtype, and no statement uses both. Inside a loop that keeps several slots each tile would
    need slots of its own, so there the step is refused: one place holds one version at a time. The label ``B_s`` is
    gone afterwards.
    """

    tile: str
    other: str

    name: ClassVar[str] = "alias"
    words: ClassVar[str] = "keep {other} in the memory of {tile}"

    def check(self, program: Program, target: Target) -> None:
        """Same shape and dtype, never alive together, no slots."""
        first, second = self._tiles(program)
        if first is second:
            raise IllegalStep(f"{written(self)}: that is one tile", span=first.span, remedy="name two")
        one, two = first.detail, second.detail
        assert isinstance(one, BufferInfo)
        assert isinstance(two, BufferInfo)
        if (one.shape, one.dtype) != (two.shape, two.dtype):
            raise IllegalStep(
                f"{written(self)}: two tiles share a place only with one shape and dtype",
                span=second.span,
                values={first.label: f"{one.dtype}{list(one.shape)}", second.label: f"{two.dtype}{list(two.shape)}"},
            )
        launch = enclosing_grid(program, first)
        if launch is not enclosing_grid(program, second):
            raise IllegalStep(f"{written(self)}: the tiles are of two launches", span=second.span)
        self._check_lifetimes(_statements(launch.children), first, second)

    def _check_lifetimes(self, entries: Sequence[Entry], first: Entry, second: Entry) -> None:
        one = [at for at, entry in enumerate(entries) if _uses(entry, first.node)]
        two = [at for at, entry in enumerate(entries) if _uses(entry, second.node)]
        shared = sorted(set(one) & set(two))
        if not shared:
            if one and two and max(min(one), min(two)) <= min(max(one), max(two)):
                raise self._overlap(entries[max(min(one), min(two))], first, second)
            return
        inner = entries[shared[0]]
        alone = len(set(one) | set(two)) == 1
        if not alone or not inner.children:
            raise self._overlap(inner, first, second)
        if isinstance(inner.detail, Loop) and (inner.detail.stages or 1) > 1:
            raise IllegalStep(
                f"{written(self)}: loop {inner.label!r} keeps {inner.detail.stages} slots of each tile, and one place "
                "holds one version at a time",
                span=inner.span,
                remedy="leave out the pipeline of this loop, or this step",
            )
        self._check_lifetimes(_statements(inner.children), first, second)

    def _overlap(self, where: Entry, first: Entry, second: Entry) -> IllegalStep:
        return IllegalStep(
            f"{written(self)}: {first.label!r} and {second.label!r} are both alive at {where.label!r}",
            span=where.span,
            remedy="only tiles used one after the other can share a place",
        )

    def apply(self, program: Program, target: Target) -> Program:
        """Put the first tile wherever the second was named."""
        first, second = self._tiles(program)
        return buffers.swap_buffer(program, second.node, first.node)

    def effect(self, artifact: Lowered) -> None:
        """The kernel has one of the tiles."""
        if allocated(artifact.cuda, self.other):
            raise dropped(self, artifact, f"{self.other} has memory of its own")

    def locate(self, program: Program) -> SourceSpan | None:
        """The second tile's allocation."""
        return self._tiles(program)[1].span

    def _tiles(self, program: Program) -> tuple[Entry, Entry]:
        scopes = (SHARED, "shared")
        return tile(self, program, self.tile, *scopes), tile(self, program, self.other, *scopes)


def _statements(entries: Sequence[Entry]) -> list[Entry]:
    """The statements of a body; attributes are looked through."""
    found: list[Entry] = []
    for entry in entries:
        if entry.kind == "attribute":
            found.extend(_statements(entry.children))
        elif entry.kind != "buffer":
            found.append(entry)
    return found


def _uses(entry: Entry, buffer: Any) -> bool:
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        if isinstance(node, (tirx.BufferLoad, tirx.BufferStore)):
            found = found or node.buffer.same_as(buffer)

    tirx.stmt_functor.post_order_visit(entry.node, visit)
    return found
