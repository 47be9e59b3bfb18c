"""``split_k(loop, parts)``: one reduction divided among blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dsl import Program, Target, tirx
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..errors import IllegalStep
from ..evidence import dropped
from ..handles import find, whole_number
from ..launches import gridded, sequence
from ..primitive import Lowered, written
from ..reduction import Reduction, reduction_of, stored, two_launches, without


@dataclass(frozen=True)
class SplitK:
    """Let ``parts`` blocks share the iterations of ``loop`` for one tile; a second launch adds their sums, in order.

    ::

        with T.Kernel(gx, gy) as (bx, by):     ->     with T.Kernel(gx, gy, parts) as (bx, by, part):
            T.clear(C_l)                                  T.clear(C_l)
            for k in T.serial(n):                         for k in T.serial(n / parts):
                .. T.gemm(A_s, B_s, C_l)                      .. of iteration part * n / parts + k
            T.copy(C_l, C[..])                            T.copy(C_l, C_l_parts[part, by, bx])
                                                      with T.Kernel(gx, gy) as (bx, by):
                                                          C_l = sum over parts of C_l_parts[part, by, bx]
                                                          T.copy(C_l, C[..])

    For products of few tiles and a long reduction. What follows the loop moves to the second launch as it is.
    """

    loop: str
    parts: int

    name: ClassVar[str] = "split_k"
    words: ClassVar[str] = "let {parts} blocks share the iterations of {loop}, and add their sums in a second launch"

    def check(self, program: Program, target: Target) -> None:
        """The loop only adds products, the grid has an axis left, and no part would be empty."""
        whole_number(self, "parts", self.parts, 2, 64)
        reduction = reduction_of(self, program, self.loop)
        where = find(self, program, self.loop, "loop").span
        if len(reduction.launch.extents) > 2:
            raise IllegalStep(
                f"{written(self)}: the grid has three axes, and none is left for the parts",
                span=where,
                remedy="join two axes of the grid in the kernel",
            )
        trip = reduction.loop.extent
        if not isinstance(trip, tirx.IntImm) or not _constant(reduction):
            raise IllegalStep(
                f"{written(self)}: the grid or the trip count depends on shapes, and a workspace is allocated for it",
                span=where,
                remedy="bind the shapes, or split in the kernel",
            )
        share = -(-int(trip) // self.parts)
        if share * (self.parts - 1) >= int(trip):
            raise IllegalStep(
                f"{written(self)}: {int(trip)} iterations leave some of {self.parts} parts empty",
                span=where,
                remedy=f"use at most {-(-int(trip) // share)} parts",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Add the axis, shorten the loop, and add the second launch."""
        reduction = reduction_of(self, program, self.loop)
        tiles = [int(extent) for extent in reversed(reduction.launch.extents)]
        shape = [self.parts, *tiles, *(int(extent) for extent in reduction.total.shape)]

        def parts(variables: Any) -> Any:
            return tirx.IntImm("int32", self.parts), lambda part: [part, *reversed(variables)]

        return two_launches(self, program, reduction, lambda w: self._first(reduction, w), shape, parts)

    def _first(self, reduction: Reduction, workspace: Any) -> Any:
        launch, loop = reduction.launch, reduction.loop
        trip = int(loop.extent)
        share = -(-trip // self.parts)
        part = tirx.Var("part", "int32")
        start = part * share
        extent: Any = tirx.IntImm("int32", share)
        if trip % self.parts:
            extent = tirx.Min(extent, trip - start)
        body = tirx.stmt_functor.substitute(loop.body, {loop.loop_var: loop.loop_var + start})
        shorter = edit.with_loop(loop, extent=extent, body=body)
        store = stored(reduction.total, workspace, [part, *reversed(launch.variables)])
        statements = sequence([*reduction.before, shorter, store])
        for attribute in reversed(launch.attributes):
            statements = tirx.AttrStmt(attribute.node, attribute.attr_key, attribute.value, statements)
        block = edit.with_block(without(reduction), body=statements)
        axis = "xyz"[len(launch.extents)]
        grid = [*zip(launch.variables, launch.extents, "xyz", strict=False), (part, self.parts, axis)]
        return gridded(launch, grid, block)

    def effect(self, artifact: Lowered) -> None:
        """Two launches, the first with the parts as its last axis."""
        launches = artifact.plan.launches
        counts = [size.evaluate() if not size.variables else -1 for size in launches[0].grid]
        if len(launches) != 2 or self.parts not in counts:
            grids = "; ".join(" x ".join(map(str, launch.grid)) for launch in launches)
            raise dropped(self, artifact, f"{len(launches)} launches, of {grids} blocks")

    def locate(self, program: Program) -> SourceSpan | None:
        """The loop."""
        return find(self, program, self.loop, "loop").span


def _constant(reduction: Reduction) -> bool:
    return all(isinstance(extent, tirx.IntImm) for extent in reduction.launch.extents)
