"""``unroll(loop, factor)``: several iterations of a loop as straight code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Loop, Program, Target, tirx
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..arrangement import is_arranged
from ..errors import IllegalStep
from ..evidence import dropped
from ..handles import find, whole_number
from ..primitive import Lowered, written


@dataclass(frozen=True)
class Unroll:
    """Repeat the body of a serial loop ``factor`` times a round; 0 repeats it as often as the loop runs.

    ::

        for k in T.serial(n):          ->      for k in T.serial(n / factor):
            f(k)                                   f(factor k); f(factor k + 1); ...

    The CUDA compiler does it (``#pragma unroll``), with a remainder where ``factor`` does not divide the trip count. A
    loop that is pipelined or ordered has its own form and is refused.
    """

    loop: str
    factor: int = 0

    name: ClassVar[str] = "unroll"
    words: ClassVar[str] = "repeat the body of {loop} {factor} times a round (0: as often as it runs)"

    def check(self, program: Program, target: Target) -> None:
        """``loop`` is a plain serial loop."""
        whole_number(self, "factor", self.factor, 0, 64)
        entry = find(self, program, self.loop, "loop")
        assert isinstance(entry.detail, Loop)
        kind = "ordered" if is_arranged(entry.detail) else entry.detail.kind
        if kind != "serial":
            raise IllegalStep(
                f"{written(self)}: loop {self.loop!r} is {kind}, only a plain serial loop can be unrolled",
                span=entry.span,
                remedy="leave the step out, or put it on a loop that is not pipelined",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Make the loop an unrolled one."""
        loop = find(self, program, self.loop, "loop").node
        if self.factor:
            program = edit.annotate_loop(program, loop, {"pragma_unroll_factor": self.factor})
            loop = find(self, program, self.loop, "loop").node
        return edit.replace(program, loop, lambda old: edit.with_loop(old, kind=tirx.ForKind.UNROLLED))

    def effect(self, artifact: Lowered) -> None:
        """A pragma stands before the loop, or the loop is gone."""
        variable = re.escape(self.loop.partition("#")[0])
        loops = re.findall(
            rf"((?:#pragma unroll[^\n]*)?)\n(?:#line[^\n]*\n)*\s*for \(int {variable}(?:_\d+)? = ", artifact.cuda
        )
        wanted = f"#pragma unroll {self.factor}" if self.factor else "#pragma unroll"
        if loops and not any(pragma.strip() == wanted for pragma in loops):
            raise dropped(self, artifact, f"a loop over {self.loop} without {wanted!r}")

    def locate(self, program: Program) -> SourceSpan | None:
        """The loop."""
        return find(self, program, self.loop, "loop").span
