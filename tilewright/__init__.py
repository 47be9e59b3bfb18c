"""Tilewright: schedules, a virtual GPU and operators for tile-level GPU kernels. Names load on first use."""

from __future__ import annotations

import importlib
from typing import Any

# name -> module that defines it; importing this package loads neither torch nor tilelang
_NAMES = {
    "kernel": "tilewright.dsl",
    "KernelFactory": "tilewright.dsl",
    "Program": "tilewright.dsl",
    "Target": "tilewright.dsl",
    "Schedule": "tilewright.schedules",
    "Kernel": "tilewright.runtime",
    "check": "tilewright.runtime",
    "compile": "tilewright.runtime",
    "jit": "tilewright.runtime",
    "run_ranks": "tilewright.runtime",
    "stats": "tilewright.runtime",
    "use": "tilewright.runtime",
    "warmup": "tilewright.ops",
}
_MODULES = {
    "errors": "tilewright.errors",
    "knobs": "tilewright.knobs",
    "language": "tilewright.dsl.language",
    "ops": "tilewright.ops",
    "vgpu": "tilewright.vgpu",
}

__all__ = [*_NAMES, *_MODULES]  # noqa: PLE0604 - every key is a text


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    else:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
