"""A memo of how TileLang rewrites its own Python functions.

Lowering a matrix product runs functions of TileLang that hold tile code. It defines them anew for every product, as
closures over the product's numbers, and each time reads, parses, rewrites and compiles their text: 18 times for one
attention kernel. The rewritten code depends on the text alone, the numbers are cells of a closure, so the code can be
kept and given new cells.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from types import CellType, CodeType, FunctionType
from typing import Any

Mutate = Callable[[Any], Any]


def remembering(mutate: Mutate, nonlocals: Callable[[Any], dict[str, Any]], library: str) -> Mutate:
    """``mutate`` that rewrites each function of ``library`` once.

    Args:
        mutate: TileLang's: a function -> a dataclass whose ``gen`` is the rewritten function.
        nonlocals: what gives ``mutate`` the variables of a function's closure.
        library: the folder whose files do not change while the process runs.
    """
    kept: dict[CodeType, Any] = {}

    def remembered(function: Any) -> Any:
        code = function.__code__
        if not code.co_filename.startswith(library + os.sep):
            return mutate(function)
        values = nonlocals(function)
        if code in kept and set(kept[code].gen.__code__.co_freevars) <= set(values):
            return replace(kept[code], gen=_renewed(kept[code].gen, values))
        kept[code] = mutate(function)
        return kept[code]

    return remembered


def _renewed(generator: FunctionType, values: dict[str, Any]) -> FunctionType:
    """The same code over other values."""
    cells = tuple(CellType(values[name]) for name in generator.__code__.co_freevars)
    renewed = FunctionType(generator.__code__, generator.__globals__, generator.__name__, generator.__defaults__, cells)
    renewed.__kwdefaults__ = generator.__kwdefaults__
    return renewed
