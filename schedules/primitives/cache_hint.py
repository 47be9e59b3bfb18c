"""``cache_hint(copy, policy)``: how long L2 should keep what one copy moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Entry, Operation, Program, Target
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..copies import global_tensor, traffic, transfer
from ..errors import IllegalStep, IllegalValue, WrongTarget
from ..evidence import dropped
from ..handles import operation
from ..primitive import Lowered, written

_POLICIES = {"normal": 0, "first": 1, "last": 2}
_CODE = {"first": "EVICT_FIRST", "last": "EVICT_LAST"}


@dataclass(frozen=True)
class CacheHint:
    """Let L2 evict what ``copy`` moves ``"first"`` (it is read once) or ``"last"`` (many blocks read it).

    ::

        tma_load(A, A_s)      ->      tma_load<EVICT_LAST>(A, A_s)

    Only loads by TMA carry such a hint.
    """

    copy: str
    policy: str

    name: ClassVar[str] = "cache_hint"
    words: ClassVar[str] = "let L2 evict what {copy} moves: {policy}"

    def check(self, program: Program, target: Target) -> None:
        """The copy is one that TMA can make."""
        entry, found = self._copy(program)
        if self.policy not in _POLICIES:
            raise IllegalValue(
                f"{written(self)}: policy must be one of {', '.join(map(repr, _POLICIES))}",
                span=entry.span,
                values={"policy": repr(self.policy)},
            )
        if not target.has_tma:
            raise WrongTarget(
                f"{written(self)}: {target.name} has no TMA, whose copies alone carry a hint",
                span=entry.span,
                remedy="leave the step out for this target",
            )
        way = transfer(found)
        if way is None or way.store:
            raise IllegalStep(
                f"{written(self)}: {entry.label!r} does not load from global into shared memory",
                span=entry.span,
                remedy="name a load, or stage() it",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Annotate the copy."""
        value = {"eviction_policy": _POLICIES[self.policy]}
        return edit.annotate_call(program, self._copy(program)[0].node, value)

    def effect(self, artifact: Lowered) -> None:
        """The tensor's loads carry the policy."""
        tensor = global_tensor(self.copy, artifact)
        seen = traffic(artifact.cuda, tensor)
        kept = _CODE[self.policy] in seen.hints if self.policy in _CODE else seen.tma and not seen.hints
        if not kept:
            text = f"{seen.tma} copies of {tensor} by TMA, hints: {', '.join(seen.hints) or 'none'}"
            raise dropped(self, artifact, text, "a copy that TMA does not make carries no hint")

    def locate(self, program: Program) -> SourceSpan | None:
        """The copy."""
        return self._copy(program)[0].span

    def _copy(self, program: Program) -> tuple[Entry, Operation]:
        return operation(self, program, self.copy, "copy")
