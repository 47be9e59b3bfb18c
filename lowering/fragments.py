"""Fragments of which TileLang laid out only a part.

Layout inference takes the layout of a fragment from one parallel loop or copy. When that statement touches only the
first rows (``T.copy(c[0:32, :], s)`` of a 64-row fragment), the layout covers only those: the rest of the fragment has
no registers, and every later statement silently works on the part.
"""

from __future__ import annotations

import math
from typing import Any

from tvm.ir.instrument import pass_instrument

from tilewright.dsl import Program
from tilewright.errors import SourceSpan

from .diagnostics import kernel_span
from .errors import LoweringError
from .layouts import constant_shape, inferred


@pass_instrument
class FragmentLayouts:
    """Watches layout inference; ``partial`` maps each fragment laid out in part to its shape and the part's."""

    def __init__(self) -> None:
        self.partial: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def run_after_pass(self, module: Any, info: Any) -> None:
        """Compare the layouts found with the shapes of their buffers."""
        for buffer, layout in inferred(module, info):
            if str(buffer.scope()) != "local.fragment":
                continue
            shape, part = constant_shape(buffer.shape), constant_shape(layout.get_input_shape())
            if shape and part and math.prod(part) < math.prod(shape):
                self.partial[str(buffer.name)] = (shape, part)

    def require_whole(self, program: Program) -> None:
        """Refuse the program when a fragment was laid out in part.

        Raises:
            LoweringError: one was.
        """
        for name, (shape, part) in self.partial.items():
            raise LoweringError(
                f"TileLang gives registers to only a part of fragment {name}: "
                "a statement that works on the part decides its layout",
                span=_place(program, name),
                values={f"{name}.shape": shape, "part": part},
                remedy=f"keep {name} in shared memory where a part of it is needed, or give the part its own fragment",
            )


def _place(program: Program, name: str) -> SourceSpan | None:
    try:
        return program.outline().find(name).span
    except KeyError:  # a buffer that TileLang made itself
        return kernel_span(program)
