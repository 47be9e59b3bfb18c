"""``rasterize(panel, order)``: the order in which blocks visit the tiles of C, for reuse in L2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Program, Target
from tilewright.dsl import rewrite as edit
from tilewright.dsl.tree import Grid
from tilewright.errors import SourceSpan

from ..errors import IllegalStep, IllegalValue
from ..evidence import dropped
from ..handles import grid, whole_number
from ..launches import PANELS
from ..primitive import Lowered, written

_NAMES = {"row": "rasterization2DRow", "column": "rasterization2DColumn"}


@dataclass(frozen=True)
class Rasterize:
    """Walk the grid in panels of ``panel`` rows (or columns), back and forth, instead of whole rows.

    ::

        for by in blocks:            ->      for panel of `panel` rows:
            for bx in blocks:                    for bx in blocks:  # forth in even panels, back in odd ones
                tile(bx, by)                         for by in the panel:
                                                         tile(bx, by)
    """

    panel: int
    order: str = "row"

    name: ClassVar[str] = "rasterize"
    words: ClassVar[str] = "visit tiles in panels of {panel}, by {order}"

    def check(self, program: Program, target: Target) -> None:
        """The grid has two axes at least."""
        whole_number(self, "panel", self.panel, 1, 1024)
        if self.order not in _NAMES:
            raise IllegalValue(f"{written(self)}: order must be 'row' or 'column'", values={"order": repr(self.order)})
        entry = grid(self, program)
        assert isinstance(entry.detail, Grid)
        if "wave" in (axis for loop in program.outline().loops for axis in loop.names):
            raise IllegalStep(
                f"{written(self)}: blocks of {program.name} take tiles in turn, in an order fixed by then",
                span=entry.span,
                remedy="put this step before persistent()",
            )
        if len(entry.detail.axes) < 2:
            raise IllegalStep(
                f"{written(self)}: the grid of {program.name} has one axis, so blocks have one order",
                span=entry.span,
                remedy="leave the step out, or give the kernel a grid of two axes",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Wrap the block's body in the swizzle attribute."""
        return edit.rasterize(program, grid(self, program).node, self.order, self.panel)

    def effect(self, artifact: Lowered) -> None:
        """The kernel maps its block index through the panel function; one that takes tiles in turn computes it."""
        call = f"{_NAMES[self.order]}<{self.panel}>"
        computed = f'"{PANELS}": "{call}"' in artifact.program_text
        if call not in artifact.cuda and not computed:
            raise dropped(self, artifact, f"no call of {call}")

    def locate(self, program: Program) -> SourceSpan | None:
        """The launch."""
        return grid(self, program).span
