"""``no_alias(tensor, promised)``: whether the compiler may take a tensor to share no memory with others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dsl import Program, Target, tirx
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..errors import IllegalStep, UnknownHandle
from ..evidence import dropped
from ..handles import grid
from ..primitive import Lowered, written

_KEY = "tl.non_restrict_params"


@dataclass(frozen=True)
class NoAlias:
    """Promise that no other tensor overlaps ``tensor``, or take the promise back (``promised=False``).

    ::

        kernel(half* X, ...)      ->      kernel(half* __restrict__ X, ...)      # loads may move across stores

    TileLang promises it of every tensor; take it back where a caller may pass one tensor twice. A tensor that is only
    reached through a tensor map has no such promise.
    """

    tensor: str
    promised: bool = True

    name: ClassVar[str] = "no_alias"
    words: ClassVar[str] = "whether {tensor} overlaps no other tensor: {promised}"

    def check(self, program: Program, target: Target) -> None:
        """The tensor is a parameter, promised otherwise so far."""
        names = [str(buffer.name) for buffer in program.func.buffer_map.values()]
        if self.tensor not in names:
            raise UnknownHandle(
                f"{written(self)}: {program.name} has no tensor {self.tensor!r}",
                span=self.locate(program),
                remedy=f"use {' or '.join(map(repr, names))}",
            )
        if self.promised is not self._withdrawn(program):
            state = "is promised" if self.promised else "is not promised"
            raise IllegalStep(
                f"{written(self)}: that {state} already",
                span=self.locate(program),
                remedy="leave the step out; TileLang promises it of every tensor unless told otherwise",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Change the launch's list of tensors without the promise."""
        launch = grid(self, program).node
        kept = [data for data in _listed(launch) if not data.same_as(self._data(program))]
        listed = kept if self.promised else [*kept, self._data(program)]
        return edit.annotate_block(program, launch, {_KEY: listed or None})

    def effect(self, artifact: Lowered) -> None:
        """The kernel's parameter is declared so."""
        declared = re.search(rf"\* (__restrict__ )?{re.escape(self.tensor)}\b", artifact.cuda)
        if declared is None:
            raise dropped(self, artifact, f"{self.tensor} is no pointer", "a tensor map carries no promise")
        if bool(declared[1]) is not self.promised:
            raise dropped(self, artifact, declared[0])

    def locate(self, program: Program) -> SourceSpan | None:
        """The launch."""
        return grid(self, program).span

    def _data(self, program: Program) -> Any:
        buffers = program.func.buffer_map.values()
        return next(buffer.data for buffer in buffers if str(buffer.name) == self.tensor)

    def _withdrawn(self, program: Program) -> bool:
        data = self._data(program)
        return any(other.same_as(data) for other in _listed(grid(self, program).node))


def _listed(launch: Any) -> list[tirx.Var]:
    return list(edit.root_block(launch).annotations.get(_KEY, []))
