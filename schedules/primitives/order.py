"""``order(loop, statements, stages)``: the order of a loop's statements, and the iteration each works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Program, Target
from tilewright.errors import SourceSpan

from ..arrangement import Arrangement, arrangement_of, listed, with_order
from ..errors import IllegalValue
from ..evidence import order_shown
from ..handles import find
from ..primitive import Lowered, written


@dataclass(frozen=True)
class Order:
    """Run the statements of ``loop`` in this order; those of stage ``s`` work ``s`` iterations behind those of stage 0.

    ::

        for k in T.serial(n):          ->      A(0)
            A(k)                               for k in T.serial(1, n):      # order("k", ("A", "B"), (0, 1))
            B(k)                                   A(k)
                                                   B(k - 1)
                                               B(n - 1)

    A statement that is not listed stays behind the one it follows in the program, in its stage. Loads of shared tiles
    run ahead as ``pipeline`` says (two slots where it says nothing); listing some of them orders them among themselves.
    Where there is TMA it does the loads, unless they are in another order than in the program: then cp.async does, as
    TileLang's barriers would not fit. ``specialize`` after this step has no such limit.
    """

    loop: str
    statements: tuple[str, ...]
    stages: tuple[int, ...] = ()

    name: ClassVar[str] = "order"
    words: ClassVar[str] = "run the statements of {loop} as {statements}, in stages {stages}"

    def check(self, program: Program, target: Target) -> None:
        """Every listed statement exists once, stages are as many, and no dependence is broken."""
        self._rewritten(program, target)

    def apply(self, program: Program, target: Target) -> Program:
        """Annotate the loop with the order and stage of every statement."""
        return self._rewritten(program, target)

    def effect(self, artifact: Lowered) -> None:
        """The statements of the generated loop come in this order."""
        order_shown(self, artifact, self.loop)

    def locate(self, program: Program) -> SourceSpan | None:
        """The loop."""
        return find(self, program, self.loop, "loop").span

    def _rewritten(self, program: Program, target: Target) -> Program:
        arrangement = arrangement_of(self, program, self.loop)
        names = [listed(self, arrangement, label) for label in self.statements]
        stages = self.stages or (0,) * len(names)
        span = arrangement.loop.span
        if not names or len(set(names)) != len(names):
            raise IllegalValue(
                f"{written(self)}: statements must be listed once each", span=span, values={"statements": names}
            )
        if len(stages) != len(names) or any(isinstance(s, bool) or not 0 <= s <= 8 for s in stages):
            raise IllegalValue(
                f"{written(self)}: stages must be one whole number from 0 to 8 for each statement listed",
                span=span,
                values={"statements": len(names), "stages": stages},
            )
        order, chosen = _completed(arrangement, names, dict(zip(names, stages, strict=True)))
        return with_order(self, program, target, arrangement, order, chosen)


def _completed(
    arrangement: Arrangement, names: list[str], stages: dict[str, int]
) -> tuple[tuple[str, ...], dict[str, int]]:
    """The listed statements, each followed by those that stay behind it."""
    behind: dict[str, list[str]] = {name: [name] for name in names}
    leader = next((name for name in names if name in arrangement.stages), names[0])
    head: list[str] = []
    seen = False
    for statement in arrangement.statements:
        label = statement.label
        if label not in arrangement.stages:
            continue
        if label in behind:
            leader, seen = label, True
        elif seen:
            behind[leader].append(label)
        else:
            head.append(label)
    first = next((name for name in names if name in arrangement.stages), names[0])
    behind[first] = head + behind[first]
    order = tuple(label for name in names for label in behind[name])
    chosen = {label: stages[name] for name in names for label in behind[name] if label in arrangement.stages}
    return order, chosen
