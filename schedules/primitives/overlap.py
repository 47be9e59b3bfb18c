"""``overlap(loop, statement, by)``: one operation of a later iteration beside the rest of an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Program, Target
from tilewright.errors import SourceSpan

from ..arrangement import arrangement_of, listed, slots_of, with_order
from ..dependence import Dependence, dependences_of, needed_by, ordered
from ..errors import IllegalStep
from ..evidence import order_shown
from ..handles import find, whole_number
from ..primitive import Lowered, written


@dataclass(frozen=True)
class Overlap:
    """Let ``statement``, with what it needs of its own iteration, run ``by`` iterations ahead of the rest of ``loop``.

    ::

        for k in T.serial(n):          ->      QK(0)
            QK(k)                              for k in T.serial(n - 1):      # overlap("k", "QK", 1)
            softmax(k)                             softmax(k)
            PV(k)                                  QK(k + 1); PV(k)
                                               softmax(n - 1); PV(n - 1)

    It comes as early in the loop as the tiles allow: a tile in registers has one version, so what overwrites it waits
    for its last reader.
    """

    loop: str
    statement: str
    by: int = 1

    name: ClassVar[str] = "overlap"
    words: ClassVar[str] = "run {statement} {by} iterations ahead of the rest of {loop}"

    def check(self, program: Program, target: Target) -> None:
        """Some order keeps all dependences, and something is left that does not run ahead."""
        whole_number(self, "by", self.by, 1, 8)
        self._rewritten(program, target)

    def apply(self, program: Program, target: Target) -> Program:
        """Annotate the loop with the order and stage of every statement."""
        return self._rewritten(program, target)

    def effect(self, artifact: Lowered) -> None:
        """The statements of the generated loop come in the order found."""
        order_shown(self, artifact, self.loop)

    def locate(self, program: Program) -> SourceSpan | None:
        """The loop."""
        return find(self, program, self.loop, "loop").span

    def _rewritten(self, program: Program, target: Target) -> Program:
        before = arrangement_of(self, program, self.loop)
        label = listed(self, before, self.statement)
        ahead = needed_by(before.statements, label)
        stages = {other: stage + (0 if other in ahead else self.by) for other, stage in before.stages.items()}
        span = before.statement(label).span
        if len(set(stages.values())) == len(set(before.stages.values())):
            raise IllegalStep(
                f"{written(self)}: nothing of loop {self.loop!r} is left to run behind {label!r}",
                span=span,
                values={"needs": ", ".join(sorted(ahead))},
                remedy="name an operation that does not need the others",
            )
        edges = dependences_of(before.statements, slots_of(before.statements))
        edges = tuple(edge for edge in edges if edge.first.label in stages and edge.second.label in stages)
        wished = [x for x in before.computing if x in ahead] + [x for x in before.computing if x not in ahead]
        order = ordered(edges, wished, stages)
        if not order:
            late = next((edge for edge in edges if _too_early(edge, stages)), None)
            reason = late.reason() if late else "its tiles have one version"
            raise IllegalStep(
                f"{written(self)}: {label!r} cannot run {self.by} iterations ahead: {reason}",
                span=span,
                remedy="overlap by fewer iterations, or another operation",
            )
        return with_order(self, program, target, before, order, stages)


def _too_early(edge: Dependence, stages: Mapping[str, int]) -> bool:
    return stages[edge.second.label] + edge.distance < stages[edge.first.label]
