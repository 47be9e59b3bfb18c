"""``specialize(consumers, ...)``: one warpgroup loads tiles, the others compute, each with registers of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Grid, Program, Target
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..errors import IllegalStep, IllegalValue, WrongTarget
from ..evidence import block_threads, dropped
from ..handles import single_launch, whole_number
from ..primitive import Lowered, written
from ..roles import GROUP, SCHEDULE, divided


@dataclass(frozen=True)
class Specialize:
    """Give loads of shared tiles to a producer warpgroup and everything else to ``consumers`` warpgroups.

    ::

        for k in T.serial(n):          ->      producer:                        consumers:
            T.copy(A[k], A_s)                      for k in T.serial(n):            for k in T.serial(n):
            T.gemm(A_s, B_s, C)                        wait until slot k is empty       wait until slot k is full
                                                       T.copy(A[k], A_s[k % depth])     T.gemm(A_s[k % depth], B_s, C)
                                                       signal that it is full           signal that it is empty

    Slots are those of ``pipeline``, order and stages those of ``order`` and ``overlap``: these steps come before this
    one. A slot is released behind the last statement that reads it, also where that is behind the loop. Registers are
    a thread's, handed over by ``setmaxnreg``.
    """

    consumers: int = 2
    producer_registers: int = 24
    consumer_registers: int = 240

    name: ClassVar[str] = "specialize"
    words: ClassVar[str] = (
        "one warpgroup loads with {producer_registers} registers a thread, "
        "{consumers} compute with {consumer_registers}"
    )

    def check(self, program: Program, target: Target) -> None:
        """The target has TMA, registers fit a multiprocessor, and stages are such that roles can keep them."""
        if not target.has_wgmma:
            raise WrongTarget(
                f"{written(self)}: {target.name} has no warp roles, which need TMA and setmaxnreg",
                span=self.locate(program),
                remedy="use pipeline() and order() there, or target sm_90a",
            )
        whole_number(self, "consumers", self.consumers, 1, 3)
        for option in ("producer_registers", "consumer_registers"):
            value: int = getattr(self, option)
            whole_number(self, option, value, 24, 256)
            if value % 8:
                raise IllegalValue(
                    f"{written(self)}: {option} must be a multiple of 8", values={option: value}, remedy="round it down"
                )
        used = GROUP * (self.producer_registers + self.consumers * self.consumer_registers)
        if used > target.registers_per_sm:
            raise IllegalValue(
                f"{written(self)}: the roles need more registers than a multiprocessor has",
                span=self.locate(program),
                values={"needed": used, "available": target.registers_per_sm},
                remedy=f"give a consumer at most {self._most(target)} registers",
            )
        entry = single_launch(self, program)
        assert isinstance(entry.detail, Grid)
        if SCHEDULE in entry.detail.annotations:
            raise IllegalStep(f"{written(self)}: {program.name} has roles already", span=entry.span)
        self.apply(program, target)

    def apply(self, program: Program, target: Target) -> Program:
        """Name the statements and attach the roles, their pipelines and what each runs in which scope."""
        entry = single_launch(self, program)
        registers = (self.producer_registers, self.consumer_registers)
        program = divided(self, program, entry, self.consumers, registers)
        grid = single_launch(self, program).node
        return edit.annotate_block(program, grid, {"tl.launch_threads": [GROUP * self.consumers, 1, 1]})

    def effect(self, artifact: Lowered) -> None:
        """A warpgroup more than consumers is launched, and the PTX hands over registers both ways."""
        counts = block_threads(artifact)
        wanted = GROUP * (self.consumers + 1)
        if any(count != wanted for count in counts):
            raise dropped(self, artifact, f"{', '.join(map(str, counts))} threads a block instead of {wanted}")
        seen = set(map(int, re.findall(r"setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32 +(\d+)", artifact.ptx)))
        if seen != {self.producer_registers, self.consumer_registers}:
            raise dropped(self, artifact, f"setmaxnreg of {', '.join(map(str, sorted(seen))) or 'nothing'}")

    def locate(self, program: Program) -> SourceSpan | None:
        """The launch."""
        return single_launch(self, program).span

    def _most(self, target: Target) -> int:
        free = target.registers_per_sm // GROUP - self.producer_registers
        return max(24, free // self.consumers // 8 * 8)
