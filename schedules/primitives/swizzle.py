"""``swizzle(tile, width)``: rows of a shared tile spread over the banks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import BufferInfo, Entry, Program, Target, bits, tilelang
from tilewright.errors import SourceSpan

from ..errors import IllegalStep, IllegalValue
from ..evidence import at, dropped, layout_of
from ..handles import tile
from ..layouts import with_layout
from ..placement import SHARED
from ..primitive import Lowered, written

_WIDTHS = (128, 64, 32)
_LINE = 128  # bytes that the 32 banks serve at once
_CHUNK = 16  # bytes that stay together


@dataclass(frozen=True)
class Swizzle:
    """Permute the 16-byte pieces of each row of ``tile`` by its row number, within ``width`` bytes.

    ::

        address(r, piece) = r * row + piece      ->      address(r, piece) = r * row + (piece ^ r % 8)      # width 128

    ``width`` 128 lets eight rows be read column by column without bank conflicts, 64 and 32 fit narrower tiles; tensor
    maps swizzle alike. Operands of matrix products get the widest that fits by themselves.
    """

    tile: str
    width: int = 128

    name: ClassVar[str] = "swizzle"
    words: ClassVar[str] = "spread rows of {tile} over the banks, {width} bytes at a time"

    def check(self, program: Program, target: Target) -> None:
        """Rows of the tile are whole numbers of ``width`` bytes, rows come in eights."""
        if isinstance(self.width, bool) or self.width not in _WIDTHS:
            raise IllegalValue(
                f"{written(self)}: width must be 128, 64 or 32 bytes",
                span=self.locate(program),
                values={"width": repr(self.width)},
            )
        entry = self._tile(program)
        info = entry.detail
        assert isinstance(info, BufferInfo)
        extents = [extent for extent in info.shape if isinstance(extent, int)]
        row = extents[-1] * bits(info.dtype) // 8
        rows = math.prod(extents[:-1])
        if len(extents) < 2 or len(extents) < len(info.shape) or row % self.width or rows % 8:
            raise IllegalStep(
                f"{written(self)}: {self.tile!r} has no rows of whole {self.width} bytes in eights",
                span=entry.span,
                values={"rows": rows, "bytes of a row": row},
                remedy="use a narrower width, or pad()",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Give the tile that layout."""
        layouts = tilelang.layout
        makers = {
            128: layouts.make_full_bank_swizzled_layout,
            64: layouts.make_half_bank_swizzled_layout,
            32: layouts.make_quarter_bank_swizzled_layout,
        }
        buffer = self._tile(program).node
        return with_layout(self, program, buffer, makers[self.width](buffer))

    def effect(self, artifact: Lowered) -> None:
        """The first piece of each of eight rows lies where the permutation sends it."""
        layout = layout_of(artifact, self.tile)
        if layout is None:
            raise dropped(self, artifact, f"{self.tile} has no layout")
        size = bits(layout.dtype) // 8
        seen = [at(layout, layout.index, row, 0) * size % self.width // _CHUNK for row in range(8)]
        if seen != [row // (_LINE // self.width) for row in range(8)]:
            raise dropped(self, artifact, f"the first pieces of rows 0 to 7 lie at {seen}")

    def locate(self, program: Program) -> SourceSpan | None:
        """The allocation."""
        return self._tile(program).span

    def _tile(self, program: Program) -> Entry:
        return tile(self, program, self.tile, SHARED, "shared")
