"""The tile language: every public name of ``tilelang.language``; a TileLang kernel needs no change."""

from __future__ import annotations

from typing import Any

from .._tilelang import language as _language

_PUBLIC = {name: value for name, value in vars(_language).items() if not name.startswith("_")}
globals().update(_PUBLIC)
__all__ = [str(name) for name in _PUBLIC]


def __getattr__(name: str) -> Any:
    return getattr(_language, name)
