"""``min_blocks(n)``: resident blocks a multiprocessor that the compiler has to leave registers for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Program, Target
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..evidence import dropped, numbers
from ..handles import grid, whole_number
from ..primitive import Lowered


@dataclass(frozen=True)
class MinBlocks:
    """Bound registers a thread so that ``n`` blocks fit a multiprocessor at once.

    ::

        __launch_bounds__(threads, 1)      ->      __launch_bounds__(threads, n)
    """

    n: int

    name: ClassVar[str] = "min_blocks"
    words: ClassVar[str] = "leave registers for {n} blocks a multiprocessor"

    def check(self, program: Program, target: Target) -> None:
        """``n`` is a count of blocks that a multiprocessor can hold."""
        whole_number(self, "n", self.n, 1, 32)
        grid(self, program)

    def apply(self, program: Program, target: Target) -> Program:
        """Wrap the block's body in the bound."""
        return edit.min_blocks(program, grid(self, program).node, self.n)

    def effect(self, artifact: Lowered) -> None:
        """The first kernel carries the bound."""
        bounds = numbers(r"__launch_bounds__\(\d+, (\d+)\)\s+\w+\([^;]*?\)\s*\{", artifact.cuda)
        if not bounds or bounds[0] != self.n:
            raise dropped(self, artifact, f"launch bounds {', '.join(map(str, bounds)) or 'missing'}")

    def locate(self, program: Program) -> SourceSpan | None:
        """The launch."""
        return grid(self, program).span
