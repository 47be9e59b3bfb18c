"""``pipeline(loop, depth)``: copies of later iterations in flight while an iteration computes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import COPIES, Operation, Program, Target
from tilewright.dsl import rewrite as edit
from tilewright.dsl.tree import Entry, Loop
from tilewright.errors import SourceSpan

from ..arrangement import is_arranged
from ..errors import IllegalStep
from ..evidence import dropped, numbers
from ..handles import find, whole_number
from ..primitive import Lowered, written

_SERIAL = ("serial", "pipelined")


@dataclass(frozen=True)
class Pipeline:
    """Keep ``depth`` slots of every shared tile that ``loop`` fills, so that ``depth - 1`` iterations load ahead.

    ::

        for k in T.serial(n):              ->      load tiles 0 .. depth-2 into slots 0 .. depth-2
            T.copy(A[.., k], A_s)                  for k in T.serial(n):
            T.gemm(A_s, B_s, C_l)                      load tile k+depth-1 into slot (k+depth-1) % depth
                                                       wait for tile k; T.gemm(A_s[k % depth], ...)

    Where there is TMA the loads move to a producer warpgroup of their own. ``depth`` 1 turns overlap off.
    """

    loop: str
    depth: int

    name: ClassVar[str] = "pipeline"
    words: ClassVar[str] = "keep {depth} slots of what {loop} loads, {depth} - 1 iterations ahead"

    def check(self, program: Program, target: Target) -> None:
        """``loop`` is one serial loop that copies something."""
        whole_number(self, "depth", self.depth, 1, 16)
        entry = self._loop(program)
        detail = entry.detail
        assert isinstance(detail, Loop)
        if detail.kind not in _SERIAL:
            raise IllegalStep(
                f"{written(self)}: loop {self.loop!r} is {detail.kind}, only a serial loop can be pipelined",
                span=entry.span,
                remedy="name the loop that runs over tiles",
            )
        if not any(child.label.startswith(("copy", "parallel", "tma_copy", "async_copy")) for child in entry.walk()):
            raise IllegalStep(
                f"{written(self)}: loop {self.loop!r} copies no tile, so there is nothing to load ahead",
                span=entry.span,
                remedy="name the loop that holds the copies",
            )

        if is_arranged(detail):
            raise IllegalStep(
                f"{written(self)}: the statements of loop {self.loop!r} have an order already, made for another depth",
                span=entry.span,
                remedy="put pipeline() before the steps that order its statements",
            )
        twice = _filled_twice(entry)
        if self.depth > 1 and twice:
            raise IllegalStep(
                f"{written(self)}: loop {self.loop!r} fills {twice} twice in an iteration, and a slot holds one tile",
                span=entry.span,
                remedy="give each copy a tile of its own",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Annotate the loop with its depth."""
        return edit.annotate_loop(program, self._loop(program).node, {"num_stages": self.depth})

    def effect(self, artifact: Lowered) -> None:
        """The code waits for ``depth - 1`` groups, has two barriers a slot, or indexes slots modulo ``depth``."""
        if self.depth == 1:
            return
        slots = self.depth - 1 if self.depth & (self.depth - 1) == 0 else self.depth
        symbol = "&" if slots == self.depth - 1 else "%"
        modulo = rf"\b{re.escape(self.loop)}(?:_\d+)?(?: [+-] \d+)?\) {symbol} {slots}\b"
        plain = rf"\b{re.escape(self.loop)}(?:_\d+)? {symbol} {slots}\b"
        waits = numbers(r"cp_async_wait<(\d+)>", artifact.cuda)
        barriers = numbers(r"mbarrier_mem\[(\d+)\]", artifact.cuda)
        one_sided = numbers(r"(?:pipeline_mbar|_full)_mem\[(\d+)\]", artifact.cuda)  # a barrier a slot
        shown = max(waits, default=0) >= self.depth - 1 or max(barriers, default=0) >= 2 * self.depth
        shown = shown or max(one_sided, default=0) >= self.depth
        if not shown and not re.search(f"{modulo}|{plain}", artifact.cuda):
            raise dropped(
                self,
                artifact,
                f"no slot index modulo {self.depth}, {len(waits)} cp.async waits, {max(barriers, default=0)} barriers",
                "a loop with fewer iterations than slots, nested in a pipelined loop, or with its copies under a "
                "condition, cannot be pipelined",
            )

    def locate(self, program: Program) -> SourceSpan | None:
        """The loop."""
        return self._loop(program).span

    def _loop(self, program: Program) -> Entry:
        return find(self, program, self.loop, "loop")


def _filled_twice(loop: Entry) -> str:
    """The first tile that two copies of a loop's own statements fill, or nothing."""
    seen: set[str] = set()
    for child in loop.children:
        operation = child.detail
        if isinstance(operation, Operation) and operation.name in COPIES and operation.regions[0].scope == "global":
            name = operation.regions[1].name
            if name in seen:
                return name
            seen.add(name)
    return ""
