"""Repairs of known TileLang faults, one a file: named, applied inside its pass pipeline, part of every cache key."""

from __future__ import annotations

from collections.abc import Sequence

from .symbolic_wait import SymbolicWait as SymbolicWait

NAMES = ("symbolic_wait",)

__all__ = ["NAMES", "SymbolicWait", "applied_remarks", "new_repairs"]


def new_repairs() -> tuple[SymbolicWait, ...]:
    """Fresh instruments of all repairs, for one lowering."""
    return (SymbolicWait(),)


def applied_remarks(repairs: Sequence[SymbolicWait]) -> tuple[str, ...]:
    """A remark for each repair that changed something."""
    return tuple(f"repair {repair.name}: {repair.count} waits rewritten" for repair in repairs if repair.count)
