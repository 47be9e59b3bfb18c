"""``fast_math()``: approximate float32 division, roots and functions, and no subnormal numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dsl import Program, Target
from tilewright.errors import SourceSpan

from ..evidence import dropped
from ..handles import grid
from ..primitive import Lowered

_ATTRIBUTE = "tilelang_pass_configs"
_KEY = "tl.enable_fast_math"


@dataclass(frozen=True)
class FastMath:
    """Compile the program's CUDA with ``--use_fast_math``.

    ::

        c = __expf-free code: exp, div.rn, sqrt.rn      ->      ex2.approx.ftz, div.approx.ftz, sqrt.approx.ftz

    Results change in the last bits; subnormal float32 values become zero; infinities may become NaN.
    """

    name: ClassVar[str] = "fast_math"
    words: ClassVar[str] = "approximate float32 functions"

    def check(self, program: Program, target: Target) -> None:
        """Any program with one launch can take it."""
        grid(self, program)

    def apply(self, program: Program, target: Target) -> Program:
        """Add the flag to the pass configuration that the function carries."""
        attributes = program.func.attrs
        held: dict[str, Any] = dict(attributes.get(_ATTRIBUTE, {})) if attributes else {}
        return program.with_func(program.func.with_attr(_ATTRIBUTE, {**held, _KEY: True}))

    def effect(self, artifact: Lowered) -> None:
        """Float32 arithmetic flushes subnormal numbers."""
        if ".ftz." not in artifact.ptx:
            raise dropped(self, artifact, "no .ftz instruction", "leave it out: the kernel has no float32 arithmetic")

    def locate(self, program: Program) -> SourceSpan | None:
        """The launch."""
        return grid(self, program).span
