"""``pad(tile, elements)``: rows of a shared tile moved apart, so that columns do not meet in one bank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dsl import GEMMS, BufferInfo, Entry, Operation, Program, Target, bits, tilelang
from tilewright.errors import SourceSpan

from ..errors import IllegalStep
from ..evidence import at, dropped, layout_of
from ..handles import tile, whole_number
from ..layouts import with_layout
from ..placement import SHARED
from ..primitive import Lowered, written

_ALIGNED = 16  # bytes that one access of a thread may take


@dataclass(frozen=True)
class Pad:
    """Leave ``elements`` unused elements behind every row of ``tile``.

    ::

        address(r, c) = r * columns + c      ->      address(r, c) = r * (columns + elements) + c

    Neither tensor maps nor warpgroup instructions read padded rows: where there is TMA the step is for tiles that are
    filled elementwise, or by a copy that ``copy_engine`` made ``"cp_async"`` or ``"sync"``.
    """

    tile: str
    elements: int

    name: ClassVar[str] = "pad"
    words: ClassVar[str] = "leave {elements} elements behind every row of {tile}"

    def check(self, program: Program, target: Target) -> None:
        """Rows stay aligned, and nothing that needs dense rows touches the tile."""
        whole_number(self, "elements", self.elements, 1, 1024)
        entry = self._tile(program)
        info = entry.detail
        assert isinstance(info, BufferInfo)
        if len(info.shape) != 2 or not all(isinstance(extent, int) for extent in info.shape):
            raise IllegalStep(
                f"{written(self)}: {self.tile!r} has {len(info.shape)} dimensions, padding is for rows of a matrix",
                span=entry.span,
            )
        width = bits(info.dtype)
        if self.elements * width % (8 * _ALIGNED):
            raise IllegalStep(
                f"{written(self)}: rows of {self.tile!r} would not start at multiples of {_ALIGNED} bytes",
                span=entry.span,
                values={"padding in bytes": self.elements * width // 8},
                remedy=f"use a multiple of {8 * _ALIGNED // width} elements",
            )
        for other in program.outline().ops:
            self._check_use(other, entry, target)

    def _check_use(self, other: Entry, entry: Entry, target: Target) -> None:
        operation = other.detail
        if not isinstance(operation, Operation) or not target.has_tma:
            return
        if not any(region.buffer.same_as(entry.node) for region in operation.regions):
            return
        if operation.name in GEMMS and target.has_wgmma:
            reason = f"{other.label} on {target.name} reads swizzled rows only"
        elif _by_tensor_map(operation):
            reason = f"{other.label} goes through a tensor map on {target.name}, which knows dense rows only"
        else:
            return
        raise IllegalStep(
            f"{written(self)}: {reason}",
            span=other.span,
            remedy="use swizzle(), or before this step copy_engine() to 'sync'",
        )

    def apply(self, program: Program, target: Target) -> Program:
        """Give the tile that layout."""
        buffer = self._tile(program).node
        rows, columns = (int(extent) for extent in buffer.shape)
        pitch = columns + self.elements
        layout = tilelang.layout.Layout((rows, columns), lambda i, j: i * pitch + j)
        return with_layout(self, program, buffer, layout)

    def effect(self, artifact: Lowered) -> None:
        """The second row starts behind the first and its padding."""
        layout = layout_of(artifact, self.tile)
        seen = None if layout is None else at(layout, layout.index, 1, 0) - at(layout, layout.index, 0, 0)
        if layout is None or seen != layout.shape[-1] + self.elements:
            raise dropped(self, artifact, f"rows of {self.tile} are {seen} elements apart")

    def locate(self, program: Program) -> SourceSpan | None:
        """The allocation."""
        return self._tile(program).span

    def _tile(self, program: Program) -> Entry:
        return tile(self, program, self.tile, SHARED, "shared")


def _by_tensor_map(operation: Any) -> bool:
    if operation.name != "copy" or not any(region.scope == "global" for region in operation.regions):
        return False
    return str(operation.annotations.get("prefer_instruction", "")).strip('"') not in ("cp_async", "sync")
