"""``copy_engine(copy, engine)``: which hardware moves one tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Entry, Operation, Program, Target
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..copies import Traffic, global_tensor, is_pipelined, traffic, transfer
from ..errors import IllegalStep, IllegalValue, WrongTarget
from ..evidence import dropped
from ..handles import operation
from ..primitive import Lowered, written

_ENGINES = ("tma", "cp_async", "sync")


@dataclass(frozen=True)
class CopyEngine:
    """Move the tile of one copy between global and shared memory by TMA, by ``cp.async``, or through registers.

    ::

        T.copy(A[..], A_s)      ->      one thread: tma_load(map of A, A_s)            # "tma", sm_90 and later
                                        each thread: cp.async 16 bytes of A to A_s     # "cp_async"
                                        each thread: r = A[..]; A_s[..] = r            # "sync"

    Where there is no TMA every copy of a pipelined loop is ``cp.async``.
    """

    copy: str
    engine: str

    name: ClassVar[str] = "copy_engine"
    words: ClassVar[str] = "move {copy} by {engine}"

    def check(self, program: Program, target: Target) -> None:
        """The copy goes between global and shared memory, and the target has the engine."""
        entry, found = self._copy(program)
        if self.engine not in _ENGINES:
            raise IllegalValue(
                f"{written(self)}: engine must be one of {', '.join(map(repr, _ENGINES))}",
                span=entry.span,
                values={"engine": repr(self.engine)},
            )
        way = transfer(found)
        if way is None:
            raise IllegalStep(
                f"{written(self)}: {entry.label!r} does not go between global and shared memory",
                span=entry.span,
                remedy="stage() sends it through shared memory",
            )
        if self.engine == "tma" and not target.has_tma:
            raise WrongTarget(
                f"{written(self)}: {target.name} has no TMA", span=entry.span, remedy="use 'cp_async', or sm_90a"
            )
        if self.engine == "cp_async" and way.store:
            raise IllegalStep(
                f"{written(self)}: cp.async loads, and {entry.label!r} stores", span=entry.span, remedy="use 'sync'"
            )
        if self.engine == "sync" and not target.has_tma and not way.store and is_pipelined(program, entry):
            raise IllegalStep(
                f"{written(self)}: {entry.label!r} is in a pipelined loop, whose copies are all cp.async on "
                f"{target.name}",
                span=entry.span,
                remedy="leave out the pipeline, or this step",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Annotate the copy."""
        statement = self._copy(program)[0].node
        return edit.annotate_call(program, statement, {"prefer_instruction": self.engine})

    def effect(self, artifact: Lowered) -> None:
        """The code moves the tensor by that engine, and by no other."""
        tensor = global_tensor(self.copy, artifact)
        seen = traffic(artifact.cuda, tensor)
        if not _kept(self.engine, seen):
            raise dropped(self, artifact, f"{tensor} is moved by {', '.join(seen.engines) or 'nothing'}")

    def locate(self, program: Program) -> SourceSpan | None:
        """The copy."""
        return self._copy(program)[0].span

    def _copy(self, program: Program) -> tuple[Entry, Operation]:
        return operation(self, program, self.copy, "copy")


def _kept(engine: str, seen: Traffic) -> bool:
    if engine == "sync":
        return not seen.tma and not seen.cp_async
    return seen.tma > 0 if engine == "tma" else seen.cp_async > 0
