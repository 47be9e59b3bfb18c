"""``threads(n)``: how many threads run one block's tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Program, Target
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..errors import IllegalValue
from ..evidence import block_threads, dropped
from ..handles import grid, whole_number
from ..primitive import Lowered, written

PRODUCER = 128  # the warpgroup that TileLang adds when it specialises warps


@dataclass(frozen=True)
class Threads:
    """Launch ``n`` threads a block, a multiple of the warp size; tile operations are divided among them anew.

    ::

        with T.Kernel(gx, gy, threads=128) as (bx, by):      ->      with T.Kernel(gx, gy, threads=n) as (bx, by):
            T.gemm(A_s, B_s, C_l)                                        T.gemm(A_s, B_s, C_l)

    Where lowering specialises warps, ``n`` counts the consumers; 128 threads for copies are added to them.
    """

    n: int

    name: ClassVar[str] = "threads"
    words: ClassVar[str] = "launch {n} threads a block"

    def check(self, program: Program, target: Target) -> None:
        """``n`` is a multiple of the warp size that the target can launch."""
        whole_number(self, "n", self.n, target.warp_size, target.max_threads)
        if self.n % target.warp_size:
            raise IllegalValue(
                f"{written(self)}: n must be a multiple of the warp size {target.warp_size}",
                span=self.locate(program),
                values={"n": self.n},
                remedy=f"use {-(-self.n // target.warp_size) * target.warp_size}",
            )
        grid(self, program)

    def apply(self, program: Program, target: Target) -> Program:
        """Set the thread count of the launch, and of those that steps added."""
        for index in range(len(program.outline().grids)):
            node = program.outline().grids[index].node
            program = edit.annotate_block(program, node, {"tl.launch_threads": [self.n, 1, 1]})
        return program

    def effect(self, artifact: Lowered) -> None:
        """Every launch has ``n`` threads, or ``n`` and a producer warpgroup where there is TMA."""
        allowed = (self.n, self.n + PRODUCER) if artifact.target.has_tma else (self.n,)
        counts = block_threads(artifact)
        if not counts or any(count not in allowed for count in counts):
            raise dropped(self, artifact, f"{', '.join(map(str, counts))} threads a block")

    def locate(self, program: Program) -> SourceSpan | None:
        """The launch."""
        return grid(self, program).span
