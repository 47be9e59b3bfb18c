"""``swap_grid()``: which grid axis neighbouring blocks advance along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dsl import Program, Target
from tilewright.dsl import rewrite as edit
from tilewright.dsl.tree import Grid
from tilewright.errors import SourceSpan

from ..errors import IllegalStep
from ..evidence import bound_extents, dropped, evaluated
from ..handles import single_launch
from ..primitive import Lowered, written

_PRIMES = (211, 307, 401, 503, 601, 701, 809, 907)


@dataclass(frozen=True)
class SwapGrid:
    """Exchange the first two axes of the grid: neighbouring blocks, which run together, then share the other operand.

    ::

        with T.Kernel(gx, gy) as (bx, by):      ->      with T.Kernel(gy, gx) as (by, bx):
            tile(bx, by)                                    tile(bx, by)

    The second axis of a grid has at most 65535 blocks on CUDA, the first 2^31 - 1.
    """

    name: ClassVar[str] = "swap_grid"
    words: ClassVar[str] = "exchange the first two grid axes"

    def check(self, program: Program, target: Target) -> None:
        """The grid has two axes at least."""
        entry = single_launch(self, program)
        assert isinstance(entry.detail, Grid)
        if len(entry.detail.axes) < 2:
            raise IllegalStep(
                f"{written(self)}: the grid of {program.name} has one axis, there is none to swap it with",
                span=entry.span,
                remedy="leave the step out",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Exchange the two outer block loops with their thread tags."""
        outer = single_launch(self, program).node
        return edit.replace(program, outer, _exchanged)

    def effect(self, artifact: Lowered) -> None:
        """The plan launches as many blocks along x and y as the scheduled program binds to them."""
        extents = bound_extents(artifact.program_text)
        for launch in artifact.plan.launches:
            names = dict.fromkeys(name for size in launch.grid for name in size.variables)
            values = dict(zip(names, _PRIMES, strict=False))
            for axis, size in zip("xy", launch.grid, strict=False):
                blocks = size.evaluate(**{name: values[name] for name in size.variables})
                if axis not in extents or evaluated(extents[axis], values) != blocks:
                    raise dropped(self, artifact, f"{size} blocks along {axis}, the program has {extents.get(axis)}")

    def locate(self, program: Program) -> SourceSpan | None:
        """The launch."""
        return single_launch(self, program).span


def _exchanged(outer: Any) -> Any:
    inner = outer.body
    first = {name: getattr(inner, name) for name in ("loop_var", "extent", "min")}
    second = {name: getattr(outer, name) for name in ("loop_var", "extent", "min")}
    return edit.with_loop(outer, **first, body=edit.with_loop(inner, **second))
