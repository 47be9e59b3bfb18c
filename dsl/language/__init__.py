"""The tile language: every public name of ``tilelang.language``; a TileLang kernel needs no change.

``alloc_tile`` is added: a tile whose memory the schedule chooses. ``prim_func`` is TileLang's, with its failures told
as errors of this package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._tilelang import language as _language
from ..build import translate_build_errors as _translate_build_errors
from ..tiles import alloc_tile as alloc_tile

_PUBLIC = {name: value for name, value in vars(_language).items() if not name.startswith("_")}
globals().update(_PUBLIC)
__all__ = [str(name) for name in _PUBLIC] + ["alloc_tile"]


def prim_func(func: Callable[..., Any] | None = None, *, eager_jit: bool = False) -> Any:
    """Trace a function into a PrimFunc, as ``tilelang.language.prim_func`` does; a decorator, also with parentheses.

    Raises:
        DslError: what is wrong with the function, at its line.
    """
    if func is None:
        return lambda inner: prim_func(inner, eager_jit=eager_jit)
    with _translate_build_errors(func, traced=True):
        return _language.prim_func(func, eager_jit=eager_jit)


def __getattr__(name: str) -> Any:
    return getattr(_language, name)
