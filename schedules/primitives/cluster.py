"""``cluster(x, y, z)``: neighbouring blocks that run together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Grid, Program, Target
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..errors import IllegalStep, WrongTarget
from ..evidence import dropped
from ..handles import grid, whole_number
from ..primitive import Lowered, written

_PORTABLE = 8  # blocks of a cluster that every machine with clusters takes


@dataclass(frozen=True)
class Cluster:
    """Launch blocks in clusters of ``x`` by ``y`` by ``z``, which share a group of multiprocessors.

    ::

        kernel<<<grid, threads>>>      ->      kernel<<<grid, threads, cluster = (x, y, z)>>>

    ``multicast`` (one load for all blocks of a cluster) is refused: the code that TileLang makes for it has no barrier
    across the cluster, so that a block overwrites a slot which another still waits for.
    """

    x: int
    y: int = 1
    z: int = 1
    multicast: bool = False

    name: ClassVar[str] = "cluster"
    words: ClassVar[str] = "launch blocks in clusters of {x} x {y} x {z}"

    def check(self, program: Program, target: Target) -> None:
        """The target has clusters, and they divide the grid."""
        for option, value in (("x", self.x), ("y", self.y), ("z", self.z)):
            whole_number(self, option, value, 1, _PORTABLE)
        launch = grid(self, program)
        if not target.has_tma:
            raise WrongTarget(
                f"{written(self)}: {target.name} has no clusters", span=launch.span, remedy="use sm_90a or later"
            )
        if self.multicast:
            raise IllegalStep(
                f"{written(self)}: multicast loads race: nothing keeps a slot until the cluster has read it",
                span=launch.span,
                remedy="leave multicast out",
            )
        blocks = self.x * self.y * self.z
        if not 1 < blocks <= _PORTABLE:
            raise IllegalStep(
                f"{written(self)}: a cluster has 2 to {_PORTABLE} blocks, this one has {blocks}", span=launch.span
            )
        assert isinstance(launch.detail, Grid)
        extents = [extent for _, extent in launch.detail.axes] + [1, 1]
        for axis, size, extent in zip("xyz", (self.x, self.y, self.z), extents, strict=False):
            if size > 1 and (not isinstance(extent, int) or extent % size):
                raise IllegalStep(
                    f"{written(self)}: {size} does not divide the grid's {extent} blocks along {axis}",
                    span=launch.span,
                    remedy="use a divisor; a grid that depends on shapes can have no cluster",
                )

    def apply(self, program: Program, target: Target) -> Program:
        """Annotate the launch."""
        dims = {"cluster_dims": [self.x, self.y, self.z]}
        return edit.annotate_block(program, grid(self, program).node, dims)

    def effect(self, artifact: Lowered) -> None:
        """The first launch has these clusters."""
        cluster = artifact.plan.launches[0].cluster
        if cluster != (self.x, self.y, self.z):
            raise dropped(self, artifact, f"clusters {cluster}")

    def locate(self, program: Program) -> SourceSpan | None:
        """The launch."""
        return grid(self, program).span
