"""``ping_pong(loop, first, last)``: consumer warpgroups run a part of a loop in turn."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Program, Target
from tilewright.errors import SourceSpan

from ..evidence import dropped
from ..handles import find, single_launch
from ..primitive import Lowered
from ..turns import FIRST_BARRIER, turn_of, with_turns


@dataclass(frozen=True)
class PingPong:
    """Let one consumer warpgroup at a time run ``loop`` from ``first`` to ``last``, in a ring of named barriers.

    ::

        each consumer:                 ->      each consumer g of n:
            for k in T.serial(n):                  for k in T.serial(n):
                QK(k)                                  wait for turn g
                softmax(k)                             QK(k); PV(k - 1)
                PV(k - 1)                              pass the turn to g + 1
                                                       softmax(k)

    While one has the matrix unit the others compute. Handles are those of the loop before ``specialize``, which comes
    before this step.
    """

    loop: str
    first: str
    last: str

    name: ClassVar[str] = "ping_pong"
    words: ClassVar[str] = "consumers take turns in {loop} from {first} to {last}"

    def check(self, program: Program, target: Target) -> None:
        """There are two consumers at least, and the loop runs both statements in this order."""
        turn_of(self, single_launch(self, program), find(self, program, self.loop, "loop"), self.first, self.last)

    def apply(self, program: Program, target: Target) -> Program:
        """Put the barriers into the consumers' scope."""
        grid, loop = single_launch(self, program), find(self, program, self.loop, "loop")
        return with_turns(program, grid, loop, turn_of(self, grid, loop, self.first, self.last))

    def effect(self, artifact: Lowered) -> None:
        """The code waits at and arrives at the ring's barriers."""
        waits = re.findall(rf"__sync_thread_partial\([^;]*\+ {FIRST_BARRIER}\), 256\)", artifact.cuda)
        arrivals = re.findall(r"__named_barrier_arrive\([^;]*, 256\)", artifact.cuda)
        if not waits or not arrivals:
            raise dropped(self, artifact, f"{len(waits)} waits and {len(arrivals)} arrivals at named barriers")

    def locate(self, program: Program) -> SourceSpan | None:
        """The loop."""
        return find(self, program, self.loop, "loop").span
