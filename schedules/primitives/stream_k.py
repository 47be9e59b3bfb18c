"""``stream_k(loop, blocks)``: all iterations of all tiles divided evenly among blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dsl import Program, Target, keep_span, tirx
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..errors import IllegalStep
from ..evidence import dropped
from ..handles import find, whole_number
from ..launches import RASTER, gridded, sequence, with_attributes
from ..primitive import Lowered, written
from ..reduction import Reduction, reduction_of, stored, two_launches, without
from ..tiles import unfolded


@dataclass(frozen=True)
class StreamK:
    """Give each of ``blocks`` blocks (0: one a multiprocessor) an equal run of iterations, across borders of tiles.

    ::

        with T.Kernel(gx, gy) as (bx, by):     ->     with T.Kernel(blocks) as block:
            T.clear(C_l)                                  for tile in the tiles of my run:
            for k in T.serial(n):                             T.clear(C_l)
                .. T.gemm(A_s, B_s, C_l)                      for k in my part of the tile's n iterations: ..
            T.copy(C_l, C[..])                                T.copy(C_l, C_l_parts[my number, tile])
                                                      with T.Kernel(gx, gy): sum of the parts, then T.copy(C_l, C[..])

    No multiprocessor idles in a last wave of few tiles. Sums are added in the order of the iterations.
    """

    loop: str
    blocks: int = 0

    name: ClassVar[str] = "stream_k"
    words: ClassVar[str] = "divide all iterations of {loop} evenly among {blocks} blocks (0: one a multiprocessor)"

    def check(self, program: Program, target: Target) -> None:
        """The loop only adds products, and grid and trip count are constants."""
        whole_number(self, "blocks", self.blocks, 0, 65535)
        reduction = reduction_of(self, program, self.loop)
        extents = (*reduction.launch.extents, reduction.loop.extent)
        where = find(self, program, self.loop, "loop").span
        if not all(isinstance(extent, tirx.IntImm) for extent in extents):
            raise IllegalStep(
                f"{written(self)}: the grid or the trip count depends on shapes, and a workspace is allocated for it",
                span=where,
                remedy="bind the shapes",
            )
        if "cluster_dims" in reduction.launch.block.annotations:
            raise IllegalStep(
                f"{written(self)}: the launch has clusters, which this step would tear apart",
                span=where,
                remedy="leave cluster() out",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Replace the grid by runs of iterations, and add the second launch."""
        reduction = reduction_of(self, program, self.loop)
        launch, trip = reduction.launch, int(reduction.loop.extent)
        extents = [int(extent) for extent in launch.extents]
        tiles = math.prod(extents)
        share = -(-tiles * trip // min(self.blocks or target.multiprocessors, tiles * trip))
        most = (trip - 1) // share + 2  # blocks that can meet in one tile
        shape = [most, tiles, *(int(extent) for extent in reduction.total.shape)]

        def parts(variables: Any) -> Any:
            number: Any = variables[-1]
            for variable, extent in reversed(list(zip(variables[:-1], extents[:-1], strict=True))):
                number = number * extent + variable
            first, last = _owner(number * trip, share), _owner((number + 1) * trip - 1, share)
            return last - first + 1, lambda part: [part, number]

        return two_launches(self, program, reduction, lambda w: _runs(reduction, w, share), shape, parts)

    def effect(self, artifact: Lowered) -> None:
        """Two launches, the first of one axis with at most that many blocks."""
        launches = artifact.plan.launches
        sizes = [size.evaluate() if not size.variables else -1 for size in launches[0].grid]
        blocks = self.blocks or artifact.target.multiprocessors
        if len(launches) != 2 or not 0 < sizes[0] <= blocks or sizes[1:] != [1, 1]:
            raise dropped(self, artifact, f"{len(launches)} launches, the first of {sizes} blocks")

    def locate(self, program: Program) -> SourceSpan | None:
        """The loop."""
        return find(self, program, self.loop, "loop").span


def _owner(iteration: Any, share: int) -> Any:
    return tirx.floordiv(iteration, share)


def _runs(reduction: Reduction, workspace: Any, share: int) -> Any:
    launch, loop = reduction.launch, reduction.loop
    trip, tiles = int(loop.extent), math.prod(int(extent) for extent in launch.extents)
    block, turn = tirx.Var("block", "int32"), tirx.Var("turn", "int32")
    start = block * share
    end = tirx.Min(start + share, tirx.IntImm("int32", tiles * trip))
    first = tirx.floordiv(start, trip)
    number = tirx.Var("tile", "int32")
    low = tirx.Max(start - number * trip, tirx.IntImm("int32", 0))
    high = tirx.Min(end - number * trip, tirx.IntImm("int32", trip))
    inner = tirx.stmt_functor.substitute(loop.body, {loop.loop_var: loop.loop_var + low})
    shorter = edit.with_loop(loop, extent=high - low, body=inner)
    store = stored(reduction.total, workspace, [block - _owner(number * trip, share), number])
    binds = [tirx.Bind(number, first + turn)]
    binds += [tirx.Bind(v, p) for v, p in zip(launch.variables, unfolded(number, launch.extents), strict=True)]
    body = sequence([*binds, *reduction.before, shorter, store])
    turns = tirx.floordiv(end - 1, trip) - first + 1
    outer = keep_span(tirx.For(turn, 0, turns, tirx.ForKind.SERIAL, body), loop)
    others = [attribute for attribute in launch.attributes if str(attribute.attr_key) != RASTER]
    root = edit.with_block(without(reduction), body=with_attributes(others, outer))
    blocks = -(-tiles * trip // share)
    return gridded(launch, [(block, tirx.IntImm("int32", blocks), "x")], root)
