"""``partition(gemm, policy)``: how the warps of a block share one matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dsl import GEMMS, Program, Target, gemm_of, tirx
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..errors import IllegalStep, IllegalValue
from ..evidence import at, dropped, layout_of
from ..handles import operation
from ..primitive import Layout, Lowered, written

_POLICIES = {"square": 0, "full_row": 1, "full_col": 2}
_NAMES = {"Square": "square", "FullRow": "full_row", "FullCol": "full_col"}
_POLICY_ARGUMENT = 8  # in the positional protocol of tl.tileop.gemm


@dataclass(frozen=True)
class Partition:
    """Divide the result of ``gemm`` among warps by rows, by columns, or into pieces as square as can be.

    ::

        each warp: (M / 2) x (N / 2)      ->      each warp: (M / 4) x N        # "full_row", four warps

    Warpgroup instructions take four warps a row of pieces, so ``"full_col"`` there counts warpgroups.
    """

    gemm: str
    policy: str

    name: ClassVar[str] = "partition"
    words: ClassVar[str] = "divide {gemm} among warps: {policy}"

    def check(self, program: Program, target: Target) -> None:
        """The product exists and is divided otherwise so far."""
        entry, found = operation(self, program, self.gemm, *GEMMS)
        if self.policy not in _POLICIES:
            raise IllegalValue(
                f"{written(self)}: policy must be one of {', '.join(map(repr, _POLICIES))}",
                span=entry.span,
                values={"policy": repr(self.policy)},
            )
        if _NAMES.get(gemm_of(found).policy) == self.policy:
            raise IllegalStep(
                f"{written(self)}: {entry.label!r} is divided so already", span=entry.span, remedy="leave the step out"
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Set the policy argument."""
        statement = operation(self, program, self.gemm, *GEMMS)[0].node
        policy = tirx.IntImm("int32", _POLICIES[self.policy])

        def rebuilt(old: Any) -> Any:
            call, arguments = old.value, list(old.value.args)
            arguments[_POLICY_ARGUMENT] = policy
            return tirx.Evaluate(tirx.Call(call.dtype, call.op, arguments, annotations=call.annotations))

        return edit.replace(program, statement, rebuilt)

    def effect(self, artifact: Lowered) -> None:
        """The accumulator's layout gives each warp whole rows, or whole columns."""
        name = self.gemm.partition(" ")[2].partition("#")[0] or self.gemm
        layout = layout_of(artifact, name)
        if layout is None or not layout.thread:
            raise dropped(self, artifact, f"no layout of the accumulator {name}")
        rows, columns = _warps(layout, 0), _warps(layout, 1)
        kept = {"full_row": columns == 1, "full_col": rows in (1, 4), "square": True}
        if not kept[self.policy]:
            raise dropped(
                self, artifact, f"{rows} x {columns} warps", "the tile is too small for that, or change threads()"
            )

    def locate(self, program: Program) -> SourceSpan | None:
        """The product."""
        return operation(self, program, self.gemm, *GEMMS)[0].span


def _warps(layout: Layout, axis: int) -> int:
    """How many warps share a column (axis 0) or a row (axis 1)."""
    extent = layout.shape[axis]
    places = (((i, 0) if axis == 0 else (0, i)) for i in range(extent))
    return len({at(layout, layout.thread, *place) // 32 for place in places})
