"""Repairs of known TileLang faults, one a file: named, applied inside its pass pipeline, part of every cache key."""

from __future__ import annotations

from collections.abc import Sequence

from .async_fence import AsyncFence as AsyncFence
from .symbolic_wait import SymbolicWait as SymbolicWait

NAMES = ("symbolic_wait", "async_fence")
Repair = SymbolicWait | AsyncFence

__all__ = ["NAMES", "AsyncFence", "Repair", "SymbolicWait", "applied_remarks", "new_repairs"]


def new_repairs() -> tuple[Repair, ...]:
    """Fresh instruments of all repairs, for one lowering."""
    return (SymbolicWait(), AsyncFence())


def applied_remarks(repairs: Sequence[Repair]) -> tuple[str, ...]:
    """A remark for each repair that changed something."""
    return tuple(f"repair {repair.name}: {_done(repair)}" for repair in repairs if repair.count)


def _done(repair: Repair) -> str:
    return f"{repair.count} {'fences added' if isinstance(repair, AsyncFence) else 'waits rewritten'}"
