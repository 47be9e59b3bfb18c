"""``persistent(blocks)``: as many blocks as the machine holds, each running tile after tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dsl import Grid, Program, Target, keep_span, tirx
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..errors import IllegalStep
from ..evidence import dropped
from ..handles import single_launch, whole_number
from ..launches import PANELS, RASTER, Launch, gridded, regridded, sequence, with_attributes
from ..primitive import Lowered, written
from ..tiles import panel_call, panel_of, unfolded

_WAVE = "wave"


@dataclass(frozen=True)
class Persistent:
    """Launch ``blocks`` blocks (0: one a multiprocessor of the target) that take tiles in turn.

    ::

        with T.Kernel(gx, gy) as (bx, by):      ->      with T.Kernel(blocks) as block:
            tile(bx, by)                                    for wave in T.serial(waves of this block):
                                                                bx, by = (wave * blocks + block) % gx, .. // gx
                                                                tile(bx, by)

    Tiles keep the order that ``rasterize`` gave them before.
    """

    blocks: int = 0

    name: ClassVar[str] = "persistent"
    words: ClassVar[str] = "launch {blocks} blocks (0: one a multiprocessor) that take tiles in turn"

    def check(self, program: Program, target: Target) -> None:
        """One launch, in no clusters, whose blocks do not do so already."""
        whole_number(self, "blocks", self.blocks, 0, 65535)
        entry = single_launch(self, program)
        assert isinstance(entry.detail, Grid)
        if any(loop.label.startswith(_WAVE) for loop in program.outline().loops):
            raise IllegalStep(
                f"{written(self)}: blocks of {program.name} take tiles in turn already",
                span=entry.span,
                remedy="leave one of the steps out",
            )
        if "cluster_dims" in entry.detail.annotations:
            raise IllegalStep(
                f"{written(self)}: the launch has clusters, which this step would tear apart",
                span=entry.span,
                remedy="put cluster() after this step",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Replace the grid by one axis and a loop over waves."""
        blocks = self.blocks or target.multiprocessors
        return regridded(program, single_launch(self, program), lambda launch: _waves(launch, blocks))

    def effect(self, artifact: Lowered) -> None:
        """One axis of at most that many blocks is launched."""
        blocks = self.blocks or artifact.target.multiprocessors
        launch = artifact.plan.launches[0]
        sizes = [size.evaluate() if not size.variables else -1 for size in launch.grid]
        if not 0 < sizes[0] <= blocks or sizes[1:] != [1, 1]:
            raise dropped(self, artifact, f"a grid of {' x '.join(map(str, launch.grid))}")

    def locate(self, program: Program) -> SourceSpan | None:
        """The launch."""
        return single_launch(self, program).span


def _waves(launch: Launch, blocks: int) -> Any:
    total: Any = 1
    for extent in launch.extents:
        total = total * extent
    if isinstance(total, tirx.IntImm):
        blocks = min(blocks, int(total))
    block, wave = tirx.Var("block", "int32"), tirx.Var(_WAVE, "int32")
    raster = [attribute for attribute in launch.attributes if str(attribute.attr_key) == RASTER]
    others = [attribute for attribute in launch.attributes if str(attribute.attr_key) != RASTER]
    tile = wave * blocks + block
    places = panel_of(tile, launch.extents, raster[0].value) if raster else unfolded(tile, launch.extents)
    binds = [tirx.Bind(variable, place) for variable, place in zip(launch.variables, places, strict=True)]
    waves = tirx.floordiv(total - block + (blocks - 1), blocks)
    body = sequence([*binds, *launch.body])
    loop = keep_span(tirx.For(wave, 0, waves, tirx.ForKind.SERIAL, body), launch.outer)
    annotations = dict(launch.block.annotations.items())
    if raster:
        annotations[PANELS] = tirx.StringImm(panel_call(raster[0].value))
    root = edit.with_block(launch.block, body=with_attributes(others, loop), annotations=annotations)
    return gridded(launch, [(block, tirx.IntImm("int32", blocks), "x")], root)
