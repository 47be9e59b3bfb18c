"""Repairs of known TileLang faults: named, made on the program or inside the pass pipeline, part of every cache key."""

from __future__ import annotations

from collections.abc import Sequence

from .async_fence import AsyncFence as AsyncFence
from .program import Prepared as Prepared
from .program import prepared as prepared
from .symbolic_wait import SymbolicWait as SymbolicWait

NAMES = ("symbolic_wait", "async_fence", "strided_store", "carried_fragment", "kept_storage")
Repair = SymbolicWait | AsyncFence

__all__ = ["NAMES", "AsyncFence", "Prepared", "Repair", "SymbolicWait", "applied_remarks", "new_repairs", "prepared"]


def new_repairs() -> tuple[Repair, ...]:
    """Fresh instruments of all repairs, for one lowering."""
    return (SymbolicWait(), AsyncFence())


def applied_remarks(repairs: Sequence[Repair]) -> tuple[str, ...]:
    """A remark for each repair that changed something."""
    return tuple(f"repair {repair.name}: {_done(repair)}" for repair in repairs if repair.count)


def _done(repair: Repair) -> str:
    return f"{repair.count} {'fences added' if isinstance(repair, AsyncFence) else 'waits rewritten'}"
