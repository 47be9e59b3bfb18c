"""Size variables that count accesses of several elements, so that the compiler sees how far they divide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.dsl import language as T


@dataclass(frozen=True)
class Counted:
    """A variable and the extent it stands for: the variable times a constant, so that the compiler sees the factor."""

    variable: Any
    extent: Any


def counted(name: str, factor: int, dtype: str = "int32") -> Counted:
    """A variable that counts units of ``factor`` elements."""
    variable = T.dynamic(name, dtype)
    return Counted(variable, variable * factor if factor > 1 else variable)
